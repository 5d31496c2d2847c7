// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "subbyte/plan/planner.h"

namespace subbyte::plan {

// What one recipe would mean for one unit of a plan.
struct ExplainedOption {
    std::string recipe;
    double loss = 0, weight = 0, cost = 0;  // DL, DW, and what the method minimises
    double saved = 0;                       // efficiency, a share of all candidates' work
    // Objective of the best plan under the same budget in which the unit has this recipe, less that
    // of the best plan in which it has the recipe of the plan that is explained. The unit moves
    // here as soon as the cost of this option falls by more than that (or the cost of the recipe it
    // has rises by more); negative: the plan would be better with this one now. +Inf: the budget
    // cannot be reached with it. Exact up to `gap` of the objective. NaN: not solved for.
    double flip = 0;
};

// Why a layer (or what is chosen for as one, see PlanUnit) has what it has.
struct ExplainedUnit {
    std::string name, type;
    int block = -1, stage = 0;
    double work = 0;                          // share of the candidates' work
    double loss_share = 0, weight_share = 0;  // of the DL and DW of the plan
    int rank = 0;      // 1: costs most when it goes to the recipe that saves most
    double ratio = 0;  // that cost per share saved, against the cheapest recipe; 0: saves nothing
    std::string planned;  // recipe of the plan; empty when its GEMMs differ or it is no option
    std::vector<ExplainedOption> options;  // in the order of the recipes
};

struct Explanation {
    std::vector<ExplainedUnit> units;
    double target = 0, reached = 0;  // efficiency asked for, and of the plan
    double objective = 0;            // of the plan
    double best = 0;                 // of the best plan that reaches the same
    double gap = 0;                  // the relative gap of every solve
    std::vector<std::string> notes;
};

// Explains a plan by the statistics it was made from. `options` as for make_plan(); its target is
// what is asked for in every stage. `wanted`: the units to find the flips of (two solves and one
// more per option each); empty: all. Errors as make_plan(); kUsage for a plan that gives candidates
// recipes which are no options.
Explanation explain_plan(const Plan& plan, const LayerTable& table,
                         const ModelStatistics& statistics, const PlannerOptions& options,
                         const std::function<bool(const std::string& name)>& wanted = {});

}  // namespace subbyte::plan
