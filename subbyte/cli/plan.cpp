// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte plan CONFIG [--set KEY=VALUE]... [--stages N] [--from-stats FILE]
// subbyte plan MODEL_DIR --data TEXT
// subbyte plan --from-stats FILE | --instance FILE
#include "subbyte/cli/plan.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "subbyte/cli/verbs.h"
#include "subbyte/core/error.h"

namespace subbyte::cli {
namespace {

// What the verb is asked to do, and the options that this form of it uses.
struct Form {
    void (*run)(const PlanArguments& a);
    std::string name, elsewhere;  // elsewhere: where the other options belong
    std::vector<std::string> options;
};

const std::string kMeasured = "it belongs to a model folder with --data TEXT";

Form form_of(const PlanArguments& a) {
    if (!a.instance.empty()) {
        return {solve_instances,
                "--instance",
                "an instance brings its costs, gains and targets with it",
                {"--instance", "--seconds", "--out"}};
    }
    const std::vector<std::string> shapes{
        "--seed",        "--target",  "--method",  "--options",         "--efficiency",
        "--granularity", "--coupled", "--profile", "--foreign-profile", "--include",
        "--exclude",     "--stages",  "--out",     "--stage-starts"};
    const std::vector<std::string> costs{"--estimator", "--loss-weight", "--weight-weight",
                                         "--squared", "--seconds"};
    const auto joined = [](std::vector<std::string> some, const std::vector<std::string>& more) {
        some.insert(some.end(), more.begin(), more.end());
        return some;
    };
    const std::vector<std::string> solving = joined(joined(shapes, costs), {"--layers", "--svg"});
    const auto and_solving = [&](const std::vector<std::string>& options) {
        return joined(options, solving);
    };
    const std::vector<std::string> truth{
        "MODEL",    "--data",      "--batch-size", "--seq-len",  "--batches", "--measure-batches",
        "--refine", "--remeasure", "--eval-data",  "--loss-only"};
    const bool folder = std::filesystem::is_directory(a.what);
    if (folder && a.compare_estimators) {
        return {compare_estimators,
                "--compare-estimators",
                "nothing is planned; leave it out",
                {"MODEL", "--data", "--options", "--batch-size", "--seq-len", "--batches", "--seed",
                 "--measure-batches", "--loss-weight", "--weight-weight", "--labels",
                 "--compare-estimators"}};
    }
    if (folder && a.from_stats.empty()) {
        return {plan_checkpoint, "a model folder", "it belongs to a configuration",
                joined(and_solving(truth), {"--probes", "--labels", "--save-stats"})};
    }
    if (folder) {
        return {plan_checkpoint, "a model folder with --from-stats",
                "nothing is measured; leave it out, or leave --from-stats out",
                joined(and_solving(truth), {"--from-stats"})};
    }
    if (!a.what.empty() && !a.from_stats.empty()) {
        return {plan_configuration, "a configuration with --from-stats",
                "nothing is measured and no layer table is shown",
                joined({"MODEL", "--set", "--from-stats", "--stretch"}, joined(shapes, costs))};
    }
    if (!a.from_stats.empty()) {
        return {plan_checkpoint, "--from-stats", kMeasured, and_solving({"--from-stats"})};
    }
    if (!a.what.empty()) {
        return {plan_configuration, "a configuration", kMeasured,
                joined({"MODEL", "--set"}, shapes)};
    }
    throw Error(ErrorCode::kUsage, "plan needs something to plan for",
                "name a configuration, a preset, or a model folder with --data TEXT");
}

// An option that would change nothing is a misunderstanding.
void run(const CLI::App& verb, PlanArguments& a) {
    const Form form = form_of(a);
    for (const CLI::Option* option : verb.get_options()) {
        const std::string name = option->get_name();
        const bool general = name == "--json" || option->count() == 0;
        if (general ||
            std::find(form.options.begin(), form.options.end(), name) != form.options.end()) {
            continue;
        }
        if (name == "--data") {
            throw Error(ErrorCode::kUsage,
                        a.what.empty()
                            ? std::string("--data needs a model folder")
                            : fmt::format("--data needs a model folder; '{}' is none", a.what),
                        "name a Hugging Face LLaMA folder or a checkpoint of a run");
        }
        throw Error(ErrorCode::kUsage, fmt::format("{} means nothing for {}", name, form.name),
                    form.elsewhere);
    }
    a.given = [&verb](const char* name) { return verb.count(name) > 0; };
    form.run(a);
}

void add_shape_options(CLI::App& verb, PlanArguments& a) {
    verb.add_option("--set", a.sets, "Change one key of CONFIG (may be repeated)")
        ->allow_extra_args(false)
        ->type_name("KEY=VALUE");
    verb.add_option("--include", a.include, "Layers that are chosen for too (glob): lm_head")
        ->delimiter(',')
        ->type_name("GLOB");
    verb.add_option("--exclude", a.exclude, "Layers that keep their precision (glob)")
        ->delimiter(',')
        ->type_name("GLOB");
}

void add_measure_options(CLI::App& verb, PlanArguments& a) {
    verb.add_option("--data", a.data, "UTF-8 text to measure on; needs the folder's tokenizer")
        ->type_name("FILE");
    verb.add_option("--probes", a.probes, "Noise passes: none, shared, block, layer")
        ->check(CLI::IsMember(snip::probes_names()))
        ->capture_default_str();
    verb.add_option("--labels", a.labels,
                    "Gradients of fisher, gradient-output, taylor: of the data's labels, or of "
                    "labels drawn from the model (sampled)")
        ->check(CLI::IsMember({"data", "sampled"}))
        ->capture_default_str();
    verb.add_option("--batch-size", a.checkpoint.batch_size, "Windows of the measured batch")
        ->capture_default_str();
    verb.add_option("--seq-len", a.checkpoint.seq_len, "Tokens per window")->capture_default_str();
    verb.add_option("--batches", a.checkpoint.batches, "Batches to evaluate each plan on")
        ->capture_default_str();
    verb.add_option("--seed", a.checkpoint.seed, "Seed of the noise and of method random")
        ->capture_default_str();
    verb.add_option("--measure-batches", a.checkpoint.measured_batches,
                    "Batches to average the statistics over")
        ->capture_default_str();
    verb.add_option("--eval-data", a.checkpoint.evaluation_text,
                    "UTF-8 text to evaluate plans on, instead of what follows the measured batches")
        ->type_name("FILE");
    verb.add_flag("--loss-only", a.loss_only,
                  "Evaluate the loss of plans, not what they do to an optimizer step");
    verb.add_option("--refine", a.improvement.evaluations,
                    "Better each plan by so many evaluations of the loss on the measured batches")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    verb.add_option("--remeasure", a.improvement.remeasure,
                    "Measure around each plan and solve again, up to so many times")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    verb.add_flag("--compare-estimators", a.compare_estimators,
                  "Compare all estimators with quantising one layer at a time (slow)");
    verb.add_option("--save-stats", a.save_stats, "Write the measured statistics (JSON)")
        ->type_name("FILE");
    verb.add_option("--from-stats", a.from_stats, "Plan from saved statistics instead of measuring")
        ->type_name("FILE");
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
    verb->add_option("--options", a->options, "Recipes to choose from")
        ->delimiter(',')
        ->capture_default_str();
    verb->add_flag("--stretch", a->stretch,
                   "Statistics of a model with other blocks: taken at the same relative depth");
    add_choice_options(*verb, *a);
    add_estimate_options(*verb, *a);
    verb->add_flag("--layers", a->layers, "Also show the predicted damage of every layer");
    verb->add_option("--instance", a->instance,
                     "Solve a selection problem (JSON): costs, gains, targets")
        ->type_name("FILE");
    verb->add_option("--out", a->out, "Write the plan or the result (JSON)")->type_name("FILE");
    verb->add_option("--svg", a->svg,
                     "Draw the plans' damage over their efficiency (SVG): the measured gap of the "
                     "loss with --data, "
                     "else the predicted damage")
        ->type_name("FILE");
    verb->add_flag("--json", a->json, "As JSON");
    verb->callback([verb, a] { run(*verb, *a); });
}

}  // namespace subbyte::cli
