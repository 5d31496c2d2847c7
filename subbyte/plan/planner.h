// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "subbyte/plan/divergence.h"
#include "subbyte/plan/plan.h"
#include "subbyte/plan/selection.h"

namespace subbyte::plan {

struct PlannerOptions {
    std::string method = "snip";                              // see planner_methods()
    std::vector<std::string> recipes{"bf16", "fp8", "fp4"};   // options of every candidate layer
    double target = 0.4;                                      // least FP4 FLOP share, 0..1
    double loss_weight = 1.0, weight_weight = 2.0;            // Q = a * DL + b * DW
    LossEstimator estimator = LossEstimator::kNormOnly;
    bool squared = false;                                     // sum q^2 instead of q
    std::uint64_t seed = 0;                                   // random
    SelectionLimits limits;
};

// A plan and how it came about.
struct PlanResult {
    Plan plan;
    SelectionStatus status = SelectionStatus::kOptimal;
    double target = 0;            // what was demanded
    double reached = 0;           // FP4 share of the plan
    bool relaxed = false;         // the target could not be reached; the nearest feasible one was taken
    double predicted_loss = 0, predicted_weight = 0, predicted = 0;  // sums of DL, DW, Q over the plan
    double gap = 0, seconds = 0;
    std::vector<std::string> notes;   // decisions worth telling (relaxation, time limit)
};

std::vector<std::string> planner_methods();  // snip, uniform, random, min-abs-err, min-rel-err, layer-type, layer-id

// Makes a plan. `statistics` may be empty (no layers) for methods that need none (uniform, random,
// layer-type, layer-id); the table then counts. "uniform" gives every candidate the option with the
// fewest bits.
PlanResult make_plan(const LayerTable& table, const ModelStatistics& statistics,
                     const PlannerOptions& options);

}  // namespace subbyte::plan
