// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "subbyte/plan/plan.h"

namespace subbyte::snip {

// Progressive warm-up: after `start`, the share of the candidates' FLOPs that follow the plan grows
// from 1/kPhases to all in kPhases equal parts of `steps`; the other layers keep high precision.
// Layers of the least damage per FLOP come first.
struct PrecisionRamp {
    std::int64_t start = 0, steps = 0;  // steps 0: none
    std::string high = "bf16";

    static constexpr std::int64_t kPhases = 10;

    // 1 .. kPhases; kPhases: the ramp is over and everything follows the plan.
    std::int64_t phase(std::int64_t step) const;
    // Gives `high` to the layers that wait; gives the number of those that follow the plan. At
    // least one does. `damage` per layer of the table; empty: the order of the table.
    int apply(std::int64_t step, const plan::LayerTable& table, const std::vector<double>& damage,
              plan::Plan& plan) const;
};

// Return to high precision in the forward pass near the end: from step `start` on, every fprop GEMM
// is at least as precise as `recipe`; dgrad and wgrad stay.
struct ForwardTail {
    std::int64_t start = -1;  // -1: never
    std::string recipe = "bf16";

    bool holds(std::int64_t step) const { return start >= 0 && step >= start; }
    void apply(std::int64_t step, const plan::LayerTable& table, plan::Plan& plan) const;
};

}  // namespace subbyte::snip
