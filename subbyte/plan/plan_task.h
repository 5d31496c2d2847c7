// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "subbyte/plan/planner.h"

namespace subbyte::plan {

// One decision of a plan: GEMMs that get the same recipe. A layer, a GEMM, or what is coupled.
struct PlanUnit {
    std::string name;  // of the layer or "LAYER.slot"; coupled ones joined by " + "
    std::vector<std::pair<std::size_t, Slot>> gemms;  // the layer's index in the table
    int stage = 0;
    double work = 0;                     // share of all candidates' work
    std::vector<double> saved;           // per recipe, of the same whole; can be negative
    std::vector<double> cost;            // per recipe; empty until set_costs()
    std::vector<Divergence> divergence;  // per recipe; empty without statistics
};

// What a planner chooses from, before any choice.
struct PlanTask {
    std::vector<Recipe> recipes;
    std::vector<PlanUnit> units;  // in the order of the table
    struct Stage {
        double work = 0, target = 0, best = 0;  // shares of all; target after relaxing
    };
    std::vector<Stage> stages;
    bool relaxed = false;
    std::vector<std::string> notes;
};

// Units, savings and targets. Errors as make_plan().
PlanTask make_task(const LayerTable& table, const PlannerOptions& options);

// Fills what the units cost by the method of the options, and their divergence. Errors as
// make_plan().
void set_costs(PlanTask& task, const LayerTable& table, const ModelStatistics& statistics,
               const PlannerOptions& options);

// The task as a selection problem, begun from a plan (its layers may be empty). An option that
// saves less than none shifts the gains of its unit and the target.
SelectionProblem to_problem(const PlanTask& task, const LayerTable& table, const Plan& start);

// The plan that gives every unit the recipe of this index.
Plan plan_of(const PlanTask& task, const LayerTable& table, const std::vector<std::size_t>& choice);

// The recipe that the plan gives to every unit, -1 where it is none of the task's or its GEMMs
// differ.
std::vector<int> choice_of(const PlanTask& task, const LayerTable& table, const Plan& plan);

}  // namespace subbyte::plan
