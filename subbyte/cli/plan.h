// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subbyte/plan/selection.h"
#include "subbyte/train/plan_checkpoint.h"

namespace subbyte::cli {

// Everything `subbyte plan` can be told.
struct PlanArguments {
    std::string what;                  // configuration, preset or model folder; may be empty
    std::string instance, from_stats;  // files
    std::vector<std::string> sets;
    int stages = 1;
    std::string data, save_stats, out;
    std::vector<double> targets{0.5};
    std::vector<std::string> methods{"snip"}, options{"fp8", "fp4"};
    std::string efficiency = "fp4-share", estimator = "norm-only", probes = "block";
    double loss_weight = 1, weight_weight = 2;
    train::CheckpointOptions checkpoint;
    plan::SelectionLimits limits;
    bool layers = false, json = false;
};

void solve_instances(const PlanArguments& arguments);     // --instance
void plan_configuration(const PlanArguments& arguments);  // from shapes alone
void plan_checkpoint(const PlanArguments& arguments);     // from measurements, new or saved

}  // namespace subbyte::cli
