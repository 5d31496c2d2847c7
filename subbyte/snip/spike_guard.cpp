// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/spike_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "subbyte/core/error.h"

namespace subbyte::snip {
namespace {

using plan::Slot;

bool is_quantised(const plan::Plan& plan, const std::string& layer) {
    return std::any_of(plan::kSlots.begin(), plan::kSlots.end(), [&](Slot slot) {
        return plan::find_recipe(plan.recipe(layer, slot))[slot].widest_bits() < 16;
    });
}

// The quantised candidates with the largest damage that make up `share` of their FLOPs, in the
// order of the table.
std::vector<std::string> most_damaging(const plan::Plan& plan, const plan::LayerTable& table,
                                       const std::vector<double>& damage, double share) {
    const std::vector<double> shares = plan::candidate_shares(table);
    std::vector<std::size_t> order;
    double total = 0;
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (!table[i].candidate || !is_quantised(plan, table[i].name)) continue;
        order.push_back(i);
        total += shares[i];
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return !damage.empty() && damage[a] > damage[b];
    });
    std::vector<std::size_t> chosen;
    double reached = 0;
    for (const std::size_t i : order) {
        if (!chosen.empty() && reached >= share * total * (1 - 1e-9)) break;
        chosen.push_back(i);
        reached += shares[i];
    }
    std::sort(chosen.begin(), chosen.end());
    std::vector<std::string> names;
    for (const std::size_t i : chosen) names.push_back(table[i].name);
    return names;
}

}  // namespace

std::optional<std::string> SpikeDetector::observe(double value) {
    if (!std::isfinite(value)) return std::nullopt;
    std::optional<std::string> spike;
    const double weight = 1 - std::pow(kDecay, static_cast<double>(count_));
    if (count_ >= kLearning) {
        const double mean = mean_ / weight;
        const double deviation = std::max(std::sqrt(square_ / weight), 1e-3 * std::abs(mean));
        const double bound = mean + sigma_ * deviation;
        if (value > bound) {
            spike = fmt::format("{:.4g} is {:.1f} deviations above its running mean {:.4g}", value,
                                (value - mean) / deviation, mean);
            value = bound;
        }
    }
    const double before = count_ == 0 ? value : mean_ / weight;
    ++count_;
    mean_ = kDecay * mean_ + (1 - kDecay) * value;
    const double after = mean_ / (1 - std::pow(kDecay, static_cast<double>(count_)));
    square_ = kDecay * square_ + (1 - kDecay) * (value - before) * (value - after);
    return spike;
}

nlohmann::json SpikeDetector::state() const { return {count_, mean_, square_}; }

void SpikeDetector::load_state(const nlohmann::json& state) {
    count_ = state.at(0).get<std::int64_t>();
    mean_ = state.at(1).get<double>();
    square_ = state.at(2).get<double>();
}

SpikeGuard::SpikeGuard(const SpikeOptions& options)
    : options_(options), loss_(options.sigma), norm_(options.sigma) {
    const auto demand = [](bool good, const std::string& what, const char* range) {
        if (!good) throw Error(ErrorCode::kUsage, "spike guard: " + what, range);
    };
    demand(options.sigma >= 0 && options.sigma <= 1e6, fmt::format("sigma {}", options.sigma),
           "the bound in standard deviations is 0 (off) or more");
    demand(options.hold >= 1, fmt::format("hold {}", options.hold),
           "the higher precision must last 1 step or more");
    demand(options.share > 0 && options.share <= 1, fmt::format("share {}", options.share),
           "the share of the layers is above 0 and at most 1");
}

std::vector<ControlEvent> SpikeGuard::end_step(std::int64_t step, double loss, double grad_norm,
                                               const plan::Plan& plan,
                                               const plan::LayerTable& table,
                                               const std::vector<double>& damage) {
    if (!active()) return {};
    std::vector<ControlEvent> events;
    std::string reason;
    if (const auto spike = loss_.observe(loss)) reason = "loss " + *spike;
    if (const auto spike = norm_.observe(grad_norm)) {
        reason += (reason.empty() ? "gradient norm " : "; gradient norm ") + *spike;
    }
    if (reason.empty()) {
        if (until_ == step && !promoted_.empty()) {
            events.push_back({.control = "spike-guard",
                              .action = "release",
                              .reason = fmt::format("{} steps without a spike", options_.hold)});
            promoted_.clear();
        }
        return events;
    }
    // A second spike keeps the layers of the first: what is promoted now is no sign of
    // harmlessness.
    if (promoted_.empty()) promoted_ = most_damaging(plan, table, damage, options_.share);
    if (promoted_.empty()) {
        events.push_back({.control = "spike-guard",
                          .action = "none",
                          .reason = reason + "; no layer is quantised"});
        return events;
    }
    until_ = step + options_.hold;
    last_spike_ = reason;
    events.push_back({.control = "spike-guard",
                      .action = "promote",
                      .reason = fmt::format("{}; {} layers one step up until step {}", reason,
                                            promoted_.size(), until_),
                      .slots = promoted_});
    wants_roll_back_ = options_.roll_back && step >= no_return_;
    return events;
}

void SpikeGuard::apply(std::int64_t step, const PrecisionLadder& ladder, plan::Plan& plan) const {
    if (step >= until_) return;
    for (const std::string& layer : promoted_) {
        for (const Slot slot : plan::kSlots) {
            raise_slot(plan, layer, slot, ladder.above(plan.recipe(layer, slot), slot));
        }
    }
}

void SpikeGuard::roll_back(const SpikeGuard& before) {
    until_ = before.until_;
    promoted_ = before.promoted_;
    no_return_ = before.until_;
    wants_roll_back_ = false;
}

nlohmann::json SpikeGuard::state() const {
    return {{"loss", loss_.state()},
            {"norm", norm_.state()},
            {"until", until_},
            {"no_return", no_return_},
            {"promoted", promoted_}};
}

void SpikeGuard::load_state(const nlohmann::json& state) {
    loss_.load_state(state.at("loss"));
    norm_.load_state(state.at("norm"));
    until_ = state.at("until").get<std::int64_t>();
    no_return_ = state.at("no_return").get<std::int64_t>();
    promoted_ = state.at("promoted").get<std::vector<std::string>>();
    wants_roll_back_ = false;
}

}  // namespace subbyte::snip
