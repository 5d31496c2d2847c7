// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "subbyte/plan/selection.h"
#include "subbyte/train/config.h"
#include "subbyte/train/plan_improvement.h"

namespace CLI {
class App;
}

namespace subbyte::cli {

// Everything `subbyte plan` can be told.
struct PlanArguments {
    std::string what;                  // configuration, preset or model folder; may be empty
    std::string instance, from_stats;  // files
    std::vector<std::string> sets;
    int stages = 1;
    std::vector<int> stage_starts;
    std::vector<std::string> include, exclude, coupled;
    std::string profile;
    bool foreign_profile = false, stretch = false;
    std::string data, save_stats, out, svg;
    // The defaults are those of a configuration.
    const train::Config::Snip defaults{};
    std::vector<double> targets{defaults.target};
    std::vector<std::string> methods{defaults.method}, options{defaults.options};
    std::string efficiency = defaults.efficiency, estimator = defaults.estimator;
    std::string granularity = defaults.granularity;
    std::string probes = defaults.probes, labels = defaults.labels;
    double loss_weight = defaults.loss_weight, weight_weight = defaults.weight_weight;
    bool squared = defaults.squared;
    train::CheckpointOptions checkpoint;
    plan::SelectionLimits limits;
    train::ImprovementOptions improvement;
    bool loss_only = false;  // no real DL and DW
    bool layers = false, compare_estimators = false, json = false;
    std::function<bool(const char* option)> given;  // typed, not the default
};

// What the options of the solver say. `threads`: of the runs that the plan is for, 0: as many as
// there are. Error kUsage, kData for names and files.
plan::PlannerOptions planner_options(const PlanArguments& arguments, std::int64_t threads = 0);

// The options that planner_options() reads, apart from --options: what is chosen and how, and how
// the damage is estimated.
void add_choice_options(CLI::App& verb, PlanArguments& arguments);
void add_estimate_options(CLI::App& verb, PlanArguments& arguments);

void solve_instances(const PlanArguments& arguments);     // --instance
void plan_configuration(const PlanArguments& arguments);  // from shapes alone
void plan_checkpoint(const PlanArguments& arguments);     // from measurements, new or saved
void compare_estimators(const PlanArguments& arguments);  // --compare-estimators

}  // namespace subbyte::cli
