// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/control.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "subbyte/core/error.h"

namespace subbyte::snip {
namespace {

void demand(bool good, const std::string& what, const char* range) {
    if (!good) throw Error(ErrorCode::kUsage, "precision control: " + what, range);
}

}  // namespace

Control::Control(const ControlOptions& options, std::vector<std::string> recipes, std::string high,
                 std::int64_t warmup_steps, std::int64_t total_steps)
    : noise(options.noise_ratio, options.noise_decay),
      spike(options.spike),
      adjust(options.adjust),
      ladder_(std::move(recipes), high),
      ramp_{.start = warmup_steps, .steps = options.ramp_steps, .high = std::move(high)} {
    demand(options.ramp_steps >= 0, fmt::format("ramp_steps {}", options.ramp_steps),
           "the ramp lasts 0 (off) or more steps");
    demand(options.tail_steps >= 0 && options.tail_steps <= total_steps,
           fmt::format("tail_steps {} of {}", options.tail_steps, total_steps),
           "the forward tail lasts 0 (off) to all steps of a run of known length");
    plan::find_recipe(options.tail_recipe);
    if (options.tail_steps > 0) {
        tail_ = {.start = total_steps - options.tail_steps, .recipe = options.tail_recipe};
    }
}

bool Control::active() const {
    return noise.active() || spike.active() || adjust.active() || ramp_.steps > 0 ||
           tail_.start >= 0;
}

plan::Plan Control::in_force(std::int64_t step, std::int64_t iteration,
                             const plan::LayerTable& table, const plan::Plan& planned,
                             const std::vector<double>& damage, std::vector<ControlEvent>& events) {
    plan::Plan plan = planned;
    const int following = ramp_.apply(step, table, damage, plan);
    const std::int64_t phase = ramp_.phase(step);
    if (step >= ramp_.start && phase != told_phase_) {
        events.push_back(
            {.step = iteration,
             .control = "ramp",
             .action = phase == PrecisionRamp::kPhases ? "end" : "lower",
             .reason = fmt::format("part {} of {} of the progressive warm-up: {} layers follow "
                                   "the plan, the others stay in {}",
                                   phase, PrecisionRamp::kPhases, following, ramp_.high)});
        told_phase_ = phase;
    }
    noise.apply(plan);
    spike.apply(step, ladder_, plan);
    tail_.apply(step, table, plan);
    if (tail_.holds(step) && !told_tail_) {
        events.push_back({.step = iteration,
                          .control = "tail",
                          .action = "raise",
                          .reason = fmt::format("from step {} on every fprop GEMM is at least {}; "
                                                "dgrad and wgrad stay",
                                                tail_.start, tail_.recipe)});
        told_tail_ = true;
    }
    plan::apply_pins(plan, table);
    return plan;
}

nlohmann::json Control::state() const {
    return {{"noise", noise.state()},
            {"spike", spike.state()},
            {"adjust", adjust.state()},
            {"ramp_phase", told_phase_},
            {"tail", told_tail_}};
}

void Control::load_state(const nlohmann::json& state) {
    noise.load_state(state.at("noise"));
    spike.load_state(state.at("spike"));
    adjust.load_state(state.at("adjust"));
    told_phase_ = state.at("ramp_phase").get<std::int64_t>();
    told_tail_ = state.at("tail").get<bool>();
}

}  // namespace subbyte::snip
