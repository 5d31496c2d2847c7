// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace subbyte::plan {

// Where the target of a plan comes from.
enum class TargetSchedule {
    kConstant,     // E_t = initial_target
    kArticle,      // E_t = initial_target, raised by target_increment every increment_every steps
    kQualityHeld,  // the largest target up to max_target whose plan is predicted to stay under a
                   // bound on the loss divergence; found anew at every re-planning
};

// "constant", "article", "quality-held"; schedule_from_name is the inverse (Error kUsage with the
// nearest).
std::string_view schedule_name(TargetSchedule schedule);
std::vector<std::string> schedule_names();
TargetSchedule schedule_from_name(std::string_view name);

// When the plan is made and how much FP4 it must have (E_t). Steps count from 0.
//
//   0 .. warmup_steps - 1             BF16, nothing measured, E_t = 0
//   from warmup_steps on              statistics every update_interval steps; the plan made of
//                                     them takes effect swap_delay steps later, whether or not
//                                     it is ready sooner
//   the last freeze_fraction          the plan stays, and with it E_t
//
// Under kArticle E_t starts at initial_target when the warm-up ends and grows by target_increment
// every increment_every steps up to max_target.
struct PlanSchedule {
    double initial_target = 0.3, target_increment = 0.0, max_target = 0.8;
    std::int64_t increment_every = 5000;
    std::int64_t update_interval = 100;  // steps between statistics
    std::int64_t warmup_steps = 0;       // BF16 before the first statistics
    double freeze_fraction = 0.1;        // no new plan in the last share of the run
    std::int64_t total_steps = 0;        // 0: unknown, never frozen
    std::int64_t swap_delay = 5;  // steps between statistics and the step its plan takes effect
    TargetSchedule target = TargetSchedule::kArticle;
    bool never = false;  // no statistics at all: the plan that is given stays

    // Error kUsage that names the field, its value and its range.
    void check() const;
    // Statistics in this step? Not when their plan would take effect in the frozen part.
    bool collects_at(std::int64_t step) const;
    bool frozen_at(std::int64_t step) const;
    std::int64_t freeze_start() const;          // first frozen step; the largest number: never
    double target_at(std::int64_t step) const;  // E_t; under kQualityHeld its upper bound
};

}  // namespace subbyte::plan
