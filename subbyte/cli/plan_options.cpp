// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// What the forms of the verb plan share.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "subbyte/cli/plan.h"
#include "subbyte/train/profile_file.h"

namespace subbyte::cli {

plan::PlannerOptions planner_options(const PlanArguments& a, std::int64_t threads) {
    plan::PlannerOptions options;
    options.recipes = a.options;
    options.efficiency = plan::efficiency_from_name(a.efficiency);
    options.granularity = plan::granularity_from_name(a.granularity);
    options.coupled = a.coupled;
    options.loss_weight = a.loss_weight;
    options.weight_weight = a.weight_weight;
    options.squared = a.squared;
    options.estimator = plan::estimator_from_name(a.estimator);
    options.stretch_statistics = a.stretch;
    options.seed = a.checkpoint.seed;
    options.limits.seconds = a.limits.seconds;
    if (a.profile.empty()) return options;
    options.profile = train::load_profile(a.profile, static_cast<int>(threads), a.foreign_profile);
    return options;
}

void add_choice_options(CLI::App& verb, PlanArguments& a) {
    verb.add_option("--target,--targets", a.targets, "Least efficiency, 0 .. 1; several: X,Y")
        ->delimiter(',')
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    verb.add_option("--method,--methods", a.methods,
                    "How to plan; several are compared: snip,uniform")
        ->delimiter(',')
        ->check(CLI::IsMember(plan::planner_methods()))
        ->capture_default_str();
    verb.add_option("--efficiency", a.efficiency, "What the target is a share of")
        ->check(CLI::IsMember(plan::efficiency_names()))
        ->capture_default_str();
    verb.add_option("--granularity", a.granularity, "Choose for layers or for each GEMM")
        ->check(CLI::IsMember(plan::granularity_names()))
        ->capture_default_str();
    verb.add_option("--coupled", a.coupled,
                    "Types (or slots) that get one recipe: q_proj+k_proj+v_proj,gate_proj+up_proj")
        ->delimiter(',')
        ->type_name("A+B");
    CLI::Option* profile =
        verb.add_option("--profile", a.profile, "Measured times, of bench --profile")
            ->type_name("FILE");
    verb.add_flag("--foreign-profile", a.foreign_profile,
                  "Take the profile though it is of another machine")
        ->needs(profile);
    CLI::Option* stages =
        verb.add_option("--stages", a.stages, "Pipeline stages to spread the blocks over, balanced")
            ->capture_default_str();
    verb.add_option("--stage-starts", a.stage_starts, "First block of every stage: 0,4,8")
        ->delimiter(',')
        ->excludes(stages);
    verb.add_option("--seconds", a.limits.seconds, "Time limit of the solver")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
}

void add_estimate_options(CLI::App& verb, PlanArguments& a) {
    verb.add_option("--estimator", a.estimator, "Of the loss divergence")
        ->check(CLI::IsMember(plan::estimator_names()))
        ->capture_default_str();
    verb.add_option("--loss-weight", a.loss_weight, "Weight of the loss divergence")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    verb.add_option("--weight-weight", a.weight_weight, "Weight of the weight divergence")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    verb.add_option("--squared", a.squared,
                    "Sum the squares of the predicted damages (true), or the damages (false)")
        ->capture_default_str();
}

}  // namespace subbyte::cli
