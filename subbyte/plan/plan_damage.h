// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "subbyte/plan/planner.h"

namespace subbyte::plan {

// What a plan that is there already is predicted to do, in the terms of PlanResult.
struct PlanDamage {
    // Sums of DL, DW and Q = loss_weight * DL + weight_weight * DW over the candidates.
    double loss = 0, weight = 0, total = 0;
    // Of the plan as a whole, what method "snip" makes least: the root of the sum of Q^2, or
    // without `squared` the sum of Q.
    double objective = 0;
    std::vector<double> layers;   // Q of every layer of the table; 0: no candidate
    std::vector<double> reached;  // efficiency per pipeline stage, as a share of all candidates

    double efficiency() const;  // sum of `reached`
};

// Damage of `plan` on these statistics. Weights, estimator, efficiency and `squared` are those of
// `options`; its method, recipes and target are not looked at. Layers count as a whole, whatever
// recipes their GEMMs have (see layer_divergence). Error kUsage for a recipe that was not measured
// (names layer and recipe); kDiverged for statistics that are not finite.
PlanDamage plan_damage(const Plan& plan, const LayerTable& table, const ModelStatistics& statistics,
                       const PlannerOptions& options);

}  // namespace subbyte::plan
