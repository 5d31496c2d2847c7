// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/noise_guard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"

namespace subbyte::snip {

using plan::Slot;

NoiseGuard::NoiseGuard(double ratio, double decay) : ratio_(ratio), decay_(decay) {
    if (!(ratio >= 0 && ratio <= 1e6)) {
        throw Error(ErrorCode::kUsage, fmt::format("noise guard: ratio {}", ratio),
                    "the ratio is 0 (off) or more; sqrt(3) = 1.732 is where training stalls");
    }
    if (!(decay >= 0 && decay < 1)) {
        throw Error(ErrorCode::kUsage, fmt::format("noise guard: decay {}", decay),
                    "the decay of the running mean is 0 or more and below 1");
    }
}

std::vector<ControlEvent> NoiseGuard::observe(const std::vector<GradientNoise>& noise,
                                              const plan::Plan& plan,
                                              const PrecisionLadder& ladder) {
    if (!active()) return {};
    ControlEvent event{.control = "noise-guard", .action = "raise"};
    std::vector<std::string> reasons;
    for (const GradientNoise& measured : noise) {
        if (measured.noise == 0) continue;  // nothing is quantised, or nothing arrived
        const std::string& recipe = plan.recipe(measured.layer, Slot::kWgrad);
        Mean& mean = means_[measured.layer];
        if (mean.recipe != recipe) mean = {.recipe = recipe};
        mean.value = decay_ * mean.value + (1 - decay_) * measured.gradient / measured.noise;
        mean.weight = decay_ * mean.weight + (1 - decay_);
        const double ratio = mean.value / mean.weight;
        if (ratio >= ratio_) continue;
        const std::string& above = ladder.above(recipe, Slot::kWgrad);
        if (above == recipe) continue;
        floor_[measured.layer] = above;
        event.slots.push_back(measured.layer + ".wgrad");
        reasons.push_back(fmt::format("{} {} -> {}: |g| / |g_q - g| = {:.3f}", measured.layer,
                                      recipe, above, ratio));
    }
    if (event.slots.empty()) return {};
    event.reason = fmt::format("{} (below {:.3f})", fmt::join(reasons, "; "), ratio_);
    return {event};
}

void NoiseGuard::apply(plan::Plan& plan) const {
    for (const auto& [layer, recipe] : floor_) raise_slot(plan, layer, Slot::kWgrad, recipe);
}

nlohmann::json NoiseGuard::state() const {
    nlohmann::json means = nlohmann::json::object();
    for (const auto& [layer, mean] : means_) means[layer] = {mean.recipe, mean.value, mean.weight};
    return {{"means", means}, {"floor", floor_}};
}

void NoiseGuard::load_state(const nlohmann::json& state) {
    std::map<std::string, Mean> means;
    for (const auto& [layer, mean] : state.at("means").items()) {
        means[layer] = {mean.at(0).get<std::string>(), mean.at(1).get<double>(),
                        mean.at(2).get<double>()};
    }
    floor_ = state.at("floor").get<std::map<std::string, std::string>>();
    means_ = std::move(means);
}

}  // namespace subbyte::snip
