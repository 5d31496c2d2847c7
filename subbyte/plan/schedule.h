// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace subbyte::plan {

// When the plan is made and how much FP4 it must have (E_t). Steps count from 0.
struct PlanSchedule {
    double initial_target = 0.3, target_increment = 0.0, max_target = 0.8;
    std::int64_t increment_every = 5000;
    std::int64_t update_interval = 100;   // steps between statistics
    std::int64_t warmup_steps = 0;        // BF16 before the first statistics
    double freeze_fraction = 0.1;         // no new plan in the last share of the run
    std::int64_t total_steps = 0;         // 0: unknown, never frozen
    std::int64_t swap_delay = 5;          // steps between statistics and the step its plan takes effect

    // Error kUsage that names the field, its value and its range.
    void check() const;
    bool collects_at(std::int64_t step) const;      // statistics in this step?
    bool frozen_at(std::int64_t step) const;
    double target_at(std::int64_t step) const;      // E_t
};

}  // namespace subbyte::plan
