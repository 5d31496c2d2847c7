// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "subbyte/snip/loss_adjuster.h"
#include "subbyte/snip/noise_guard.h"
#include "subbyte/snip/precision_ramp.h"
#include "subbyte/snip/spike_guard.h"

namespace subbyte {

// What controls the precision of a run beside the planner. All of it is off by default.
struct ControlOptions {
    double noise_ratio = 0;    // see snip::NoiseGuard; 1.732 is the published bound
    double noise_decay = 0.5;  // per measurement
    snip::SpikeOptions spike;
    snip::LossAdjustOptions adjust;
    std::int64_t ramp_steps = 0;  // progressive warm-up after SnipOptions::warmup_steps
    std::int64_t tail_steps = 0;  // forward pass in tail_recipe in the last so many steps
    std::string tail_recipe = "bf16";
};

namespace snip {

// The controls of one run: they turn the plan of the planner into the plan in force. They only ever
// raise the precision of a GEMM, in this order: ramp, noise guard, spike guard, forward tail.
class Control {
public:
    // Error kUsage for options out of range.
    Control(const ControlOptions& options, std::vector<std::string> recipes, std::string high,
            std::int64_t warmup_steps, std::int64_t total_steps);

    // False: the plan in force is that of the planner, always.
    bool active() const;

    // What comes into force in `step` from the planner's plan. `damage` per layer as in
    // ReplanResult. Ramp and tail tell when they change; `iteration` is what their events say.
    plan::Plan in_force(std::int64_t step, std::int64_t iteration, const plan::LayerTable& table,
                        const plan::Plan& planned, const std::vector<double>& damage,
                        std::vector<ControlEvent>& events);

    const PrecisionLadder& ladder() const { return ladder_; }
    NoiseGuard noise;
    SpikeGuard spike;
    LossAdjuster adjust;

    nlohmann::json state() const;
    void load_state(const nlohmann::json& state);  // throws nlohmann::json::exception

private:
    PrecisionLadder ladder_;
    PrecisionRamp ramp_;
    ForwardTail tail_;
    std::int64_t told_phase_ = PrecisionRamp::kPhases;  // of the ramp
    bool told_tail_ = false;
};

}  // namespace snip
}  // namespace subbyte
