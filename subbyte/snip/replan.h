// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "subbyte/plan/planner.h"

namespace subbyte::snip {

using Planner = std::function<plan::PlanResult(
    const plan::LayerTable&, const plan::ModelStatistics&, const plan::PlannerOptions&)>;

// One re-planning: what was measured, what is wanted, what is in force.
struct ReplanTask {
    plan::ModelStatistics statistics;
    plan::PlannerOptions planner;  // with the target; its upper bound when `damage_bound` is given
    std::optional<double> damage_bound;  // quality-held: most predicted DL, relative to the loss
    double hysteresis = 0;               // a new plan must be better by more than this share
    // None, or of recipes that are no options: the new plan is taken whatever it costs.
    std::optional<plan::Plan> in_force;
};

struct ReplanResult {
    plan::PlanResult result;             // the new plan; its notes say why it was kept out
    bool keep = false;                   // the plan in force stays
    double cost = 0, cost_in_force = 0;  // predicted damage of both on these statistics
    std::vector<double> damage;  // per layer, of the plan that is in force afterwards; may be empty
};

// Targets that a quality-held search tries: kTargetSteps equal parts of the upper bound.
inline constexpr int kTargetSteps = 40;

// Plans and decides. Quality-held: the largest target whose plan is predicted to do at most
// `damage_bound`, tried from the top; when none is, the plan of target 0 with a note. Hysteresis:
// the plan in force stays when it still reaches the target (per pipeline stage) and holds the
// bound, and the new one is not better by more than `hysteresis` of what the old one costs on
// today's statistics. Deterministic as long as the planner is. Errors are those of the planner.
ReplanResult replan(const ReplanTask& task, const Planner& planner);

}  // namespace subbyte::snip
