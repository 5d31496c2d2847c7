// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/optim/make_optimizer.h"

#include <fmt/format.h>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"
#include "subbyte/optim/json_fields.h"

namespace subbyte::optim {
namespace {

// The options that both optimizers have.
template <typename Options>
void read_adam_options(JsonFields& fields, Options& options) {
    fields.read("lr", options.lr);
    std::array<double, 2> betas = {options.beta1, options.beta2};
    fields.read("betas", betas);
    options.beta1 = betas[0];
    options.beta2 = betas[1];
    fields.read("eps", options.eps);
    fields.read("weight_decay", options.weight_decay);
    fields.read("max_grad_norm", options.max_grad_norm);
    fields.read("amsgrad", options.amsgrad);
}

StableSpamCompat parse_compat(const std::string& name) {
    if (name == "clean") return StableSpamCompat::kClean;
    if (name == "official") return StableSpamCompat::kOfficial;
    throw Error(ErrorCode::kUsage, fmt::format("compat '{}' is unknown", name),
                nearest_hint(name, {"clean", "official"}));
}

AdamWOptions read_adamw(JsonFields& fields) {
    AdamWOptions options;
    read_adam_options(fields, options);
    fields.finish();
    return options;
}

StableSpamOptions read_stable_spam(JsonFields& fields) {
    StableSpamOptions options;
    read_adam_options(fields, options);
    fields.read("gamma1", options.gamma1);
    fields.read("gamma2", options.gamma2);
    fields.read("gamma3", options.gamma3);
    fields.read("update_gap", options.update_gap);
    fields.read("total_steps", options.total_steps);
    fields.read("eta_min", options.eta_min);
    std::string compat = "clean";
    fields.read("compat", compat);
    options.compat = parse_compat(compat);
    fields.read("adaclip", options.adaclip);
    fields.read("adagn", options.adagn);
    fields.finish();
    return options;
}

}  // namespace

const std::vector<std::string>& optimizer_names() {
    static const std::vector<std::string> names = {"adamw", "stable-spam"};
    return names;
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          std::vector<Parameter> parameters,
                                          const nlohmann::json& options) {
    JsonFields fields(options, fmt::format("options of '{}'", name), ErrorCode::kUsage);
    if (name == "adamw") {
        return std::make_unique<AdamW>(std::move(parameters), read_adamw(fields));
    }
    if (name == "stable-spam") {
        return std::make_unique<StableSpam>(std::move(parameters), read_stable_spam(fields));
    }
    throw Error(ErrorCode::kUsage, fmt::format("optimizer '{}' is unknown", name),
                nearest_hint(name, optimizer_names()));
}

}  // namespace subbyte::optim
