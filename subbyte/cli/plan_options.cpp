// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// What the forms of the verb plan share.
#include <ATen/Parallel.h>

#include <nlohmann/json.hpp>

#include "subbyte/cli/plan.h"
#include "subbyte/core/cpu.h"
#include "subbyte/io/json_file.h"

namespace subbyte::cli {

plan::PlannerOptions planner_options(const PlanArguments& a, std::int64_t threads) {
    plan::PlannerOptions options;
    options.recipes = a.options;
    options.efficiency = plan::efficiency_from_name(a.efficiency);
    options.granularity = plan::granularity_from_name(a.granularity);
    options.coupled = a.coupled;
    options.loss_weight = a.loss_weight;
    options.weight_weight = a.weight_weight;
    options.estimator = a.estimator == "first-order" ? plan::LossEstimator::kFirstOrder
                                                     : plan::LossEstimator::kNormOnly;
    options.stretch_statistics = a.stretch;
    options.seed = a.checkpoint.seed;
    options.limits.seconds = a.limits.seconds;
    if (a.profile.empty()) return options;
    auto profile =
        std::make_shared<plan::MachineProfile>(plan::profile_from_json(io::read_json(a.profile)));
    if (!a.foreign_profile) {
        plan::check_machine(*profile,
                            {cpu_model_name(), std::string(isa_name(max_isa())),
                             threads > 0 ? static_cast<int>(threads) : at::get_num_threads()});
    }
    options.profile = std::move(profile);
    return options;
}

}  // namespace subbyte::cli
