// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/optimizer_setup.h"

#include <nlohmann/json.hpp>

#include "subbyte/optim/make_optimizer.h"

namespace subbyte::train {

std::unique_ptr<optim::Optimizer> set_up_optimizer(const Config& config, models::LlamaImpl& model) {
    const Config::Optim& o = config.optim;
    nlohmann::json options{{"lr", o.lr},
                           {"betas", o.betas},
                           {"eps", o.eps},
                           {"weight_decay", o.weight_decay},
                           {"max_grad_norm", o.grad_clip},
                           {"amsgrad", o.amsgrad}};
    if (o.name == "stable-spam") {
        const Config::StableSpam& s = o.stable_spam;
        options["gamma1"] = s.gamma1;
        options["gamma2"] = s.gamma2;
        options["gamma3"] = s.gamma3;
        options["update_gap"] = s.reset_interval;
        options["total_steps"] = s.total_steps;
        options["eta_min"] = s.eta_min;
        options["adaclip"] = s.adaclip;
        options["adagn"] = s.adagn;
        options["compat"] = s.compat;
    }
    return optim::make_optimizer(o.name, optim::parameters_of(model), options);
}

optim::LrSchedule lr_schedule_of(const Config& config) {
    const std::int64_t total =
        config.optim.schedule_steps > 0 ? config.optim.schedule_steps : config.train.steps;
    optim::LrScheduleOptions options;
    options.shape = config.optim.schedule;
    options.peak = config.optim.lr;
    options.min_ratio = config.optim.min_lr_ratio;
    options.warmup_steps = config.optim.warmup_steps.of(total);
    options.total_steps = total;
    return optim::LrSchedule(options);
}

}  // namespace subbyte::train
