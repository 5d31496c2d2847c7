// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte plan CONFIG [--set KEY=VALUE]... [--stages N]
// subbyte plan MODEL_DIR --data TEXT
// subbyte plan --from-stats FILE | --instance FILE
#include "subbyte/cli/plan.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <memory>

#include "subbyte/cli/verbs.h"
#include "subbyte/core/error.h"
#include "subbyte/plan/planner.h"

namespace subbyte::cli {
namespace {

void run(const PlanArguments& a) {
    if (!a.instance.empty()) return solve_instances(a);
    const bool folder = std::filesystem::is_directory(a.what);
    if (folder || !a.from_stats.empty()) return plan_checkpoint(a);
    if (a.what.empty()) {
        throw Error(ErrorCode::kUsage, "plan needs something to plan for",
                    "name a configuration, a preset, or a model folder with --data TEXT");
    }
    if (!a.data.empty()) {
        throw Error(ErrorCode::kUsage, "--data needs a model folder; '" + a.what + "' is none",
                    "name a Hugging Face LLaMA folder or a checkpoint of a run");
    }
    plan_configuration(a);
}

// Options that only one form of the verb takes refuse the others.
void add_shape_options(CLI::App& verb, PlanArguments& a) {
    verb.add_option("--set", a.sets, "Change one key of CONFIG (may be repeated)")
        ->allow_extra_args(false)
        ->type_name("KEY=VALUE");
    verb.add_option("--stages", a.stages, "Pipeline stages to spread the blocks of CONFIG over")
        ->capture_default_str();
}

void add_measure_options(CLI::App& verb, PlanArguments& a) {
    verb.add_option("--data", a.data, "UTF-8 text to measure on; needs the folder's tokenizer")
        ->type_name("FILE");
    verb.add_option("--probes", a.probes, "Noise passes: none, shared, block, layer")
        ->check(CLI::IsMember({"none", "shared", "block", "layer"}))
        ->capture_default_str();
    verb.add_option("--batch-size", a.checkpoint.batch_size, "Windows of the measured batch")
        ->capture_default_str();
    verb.add_option("--seq-len", a.checkpoint.seq_len, "Tokens per window")->capture_default_str();
    verb.add_option("--batches", a.checkpoint.batches, "Batches to evaluate each plan on")
        ->capture_default_str();
    verb.add_option("--seed", a.checkpoint.seed, "Seed of the noise and of method random")
        ->capture_default_str();
    verb.add_option("--save-stats", a.save_stats, "Write the measured statistics (JSON)")
        ->type_name("FILE");
    verb.add_option("--from-stats", a.from_stats, "Plan from saved statistics instead of measuring")
        ->type_name("FILE");
}

void add_solve_options(CLI::App& verb, PlanArguments& a) {
    verb.add_option("--target", a.targets, "Least efficiency, 0 .. 1; several: X,Y")
        ->delimiter(',')
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    verb.add_option("--method", a.methods, "How to plan; several are compared: snip,uniform")
        ->delimiter(',')
        ->check(CLI::IsMember(plan::planner_methods()))
        ->capture_default_str();
    verb.add_option("--options", a.options, "Recipes to choose from")
        ->delimiter(',')
        ->capture_default_str();
    verb.add_option("--efficiency", a.efficiency, "What the target is a share of")
        ->check(CLI::IsMember(plan::efficiency_names()))
        ->capture_default_str();
    verb.add_option("--estimator", a.estimator, "Of the loss divergence")
        ->check(CLI::IsMember({"norm-only", "first-order"}))
        ->capture_default_str();
    verb.add_option("--loss-weight", a.loss_weight, "Weight of the loss divergence")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    verb.add_option("--weight-weight", a.weight_weight, "Weight of the weight divergence")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
}

}  // namespace

void add_plan(CLI::App& program) {
    CLI::App* verb = program.add_subcommand("plan", "Choose the precision of every layer");
    auto a = std::make_shared<PlanArguments>();
    verb->add_option(
        "MODEL", a->what,
        "Configuration or preset (planned from its shapes), or a model folder (measured "
        "on --data)");
    add_shape_options(*verb, *a);
    add_measure_options(*verb, *a);
    add_solve_options(*verb, *a);
    verb->add_flag("--layers", a->layers, "Also show the predicted damage of every layer");
    verb->add_option("--instance", a->instance,
                     "Solve a selection problem (JSON): costs, gains, targets")
        ->type_name("FILE");
    verb->add_option("--out", a->out, "Write the plan or the result (JSON)")->type_name("FILE");
    verb->add_option("--seconds", a->limits.seconds, "Time limit of the solver")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    verb->add_flag("--json", a->json, "As JSON");
    verb->callback([a] { run(*a); });
}

}  // namespace subbyte::cli
