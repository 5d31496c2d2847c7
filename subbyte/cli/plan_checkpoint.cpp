// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte plan MODEL_DIR --data TEXT, and --from-stats FILE
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "subbyte/cli/output.h"
#include "subbyte/cli/plan.h"
#include "subbyte/core/clock.h"
#include "subbyte/core/error.h"
#include "subbyte/core/file.h"
#include "subbyte/io/json_file.h"
#include "subbyte/plan/stages.h"
#include "subbyte/plan/statistics_check.h"
#include "subbyte/train/inspect_plan.h"
#include "subbyte/train/line_chart.h"
#include "subbyte/train/plan_candidates.h"
#include "subbyte/train/plan_table.h"

namespace subbyte::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

struct Outcome {
    snip::Measurement measurement;
    double measure_seconds = 0, evaluate_seconds = 0;
    std::vector<train::SolvedPlan> plans;
    bool evaluated = false;
    train::AccumulatedLoss base;  // BF16
    std::vector<std::string> notes;
};

train::SolveOptions solve_options(const PlanArguments& a) {
    return {.methods = a.methods, .targets = a.targets, .planner = planner_options(a)};
}

train::CheckpointOptions checkpoint_options(const PlanArguments& a) {
    train::CheckpointOptions options = a.checkpoint;
    options.recipes = a.options;
    options.include = a.include;
    for (const std::string& method : a.methods) {
        options.needs =
            options.needs | plan::needs_of(method, plan::estimator_from_name(a.estimator));
    }
    options.probes = snip::probes_from_name(a.probes);
    options.sampled_labels = a.labels == "sampled";
    return options;
}

// An option that would change nothing is a misunderstanding.
void check_improvement(const PlanArguments& a) {
    const bool measured = std::any_of(a.methods.begin(), a.methods.end(), plan::needs_statistics);
    for (const char* option : {"--refine", "--remeasure"}) {
        if (measured || !a.given(option)) continue;
        throw Error(ErrorCode::kUsage,
                    fmt::format("{}: none of the methods looks at measurements", option),
                    "leave it out, or plan by snip or an estimator");
    }
}

void check_labels(const PlanArguments& a) {
    const bool used =
        std::any_of(a.methods.begin(), a.methods.end(), [&](const std::string& method) {
            return plan::needs_of(method, plan::estimator_from_name(a.estimator)).outputs;
        });
    if (used || !a.given("--labels") || a.labels == "data") return;
    throw Error(ErrorCode::kUsage,
                fmt::format("--labels {} means nothing for these methods and the estimator {}",
                            a.labels, a.estimator),
                "fisher, gradient-output and taylor, as --method or --estimator, look at labels");
}

Outcome make_plans(const PlanArguments& a) {
    Outcome outcome;
    check_improvement(a);
    check_labels(a);
    for (const std::string& recipe : a.options) plan::find_recipe(recipe);
    const train::SolveOptions options = solve_options(a);
    std::unique_ptr<train::PlannedCheckpoint> checkpoint;
    if (!a.what.empty() && !a.data.empty()) {
        checkpoint =
            std::make_unique<train::PlannedCheckpoint>(a.what, a.data, checkpoint_options(a));
    } else if (!a.what.empty()) {
        throw Error(
            ErrorCode::kUsage, fmt::format("{} is a model folder, and there is no --data", a.what),
            "name a text to measure on: --data FILE, or saved statistics: --from-stats FILE");
    }
    if (a.from_stats.empty()) {
        const Stopwatch watch;
        outcome.measurement = checkpoint->measure();
        outcome.measure_seconds = watch.seconds();
    } else {
        outcome.measurement.statistics = train::read_statistics(a.from_stats);
        if (checkpoint) {
            plan::check_same_model(outcome.measurement.statistics, checkpoint->table());
        }
    }
    plan::ModelStatistics& statistics = outcome.measurement.statistics;
    if (!a.save_stats.empty()) io::write_json(a.save_stats, plan::to_json(statistics));
    train::choose_candidates(statistics.table, a.include, a.exclude);
    if (a.given("--stages")) plan::balance_stages(statistics.table, a.stages);
    if (!a.stage_starts.empty()) plan::set_stages(statistics.table, a.stage_starts);
    outcome.plans = train::solve_plans(statistics, options);
    if (!outcome.plans.front().result.usable()) {
        throw Error(ErrorCode::kUsage, outcome.plans.front().result.notes.front(),
                    "give more --seconds");
    }
    const auto write_plan = [&] {
        if (!a.out.empty()) io::write_json(a.out, plan::to_json(outcome.plans.front().result.plan));
    };
    if (!checkpoint) {
        write_plan();
        return outcome;
    }
    const Stopwatch watch;
    outcome.evaluated = true;
    outcome.base = checkpoint->evaluate(plan::uniform_plan(checkpoint->table(), "bf16"));
    for (train::SolvedPlan& plan : outcome.plans) {
        if (!plan.result.usable()) continue;
        improve_plan(*checkpoint, statistics, options.planner, a.improvement, plan);
        plan.loss = checkpoint->evaluate(plan.result.plan).mean;
        if (a.loss_only) continue;
        plan.realised = checkpoint->realised(plan.result.plan, statistics,
                                             plan::estimator_from_name(a.estimator));
    }
    outcome.evaluate_seconds = watch.seconds();
    outcome.notes = checkpoint->notes();
    write_plan();
    return outcome;
}

std::string plans_text(const Outcome& outcome) {
    Rows rows{{"method", "target", "reached", "FP4", "bits", "speed", "DL", "DW", "solved in"}};
    if (outcome.evaluated) {
        rows[0].insert(rows[0].end(), {"real DL", "real DW", "loss", "against bf16"});
    }
    for (const train::SolvedPlan& plan : outcome.plans) {
        const plan::PlanResult& r = plan.result;
        if (!r.usable()) {
            rows.push_back({r.plan.method, fmt::format("{:.1f}%", 100 * r.target)});
            rows.back().resize(rows[0].size(), "-");
            continue;
        }
        rows.push_back(
            {r.plan.method, fmt::format("{:.1f}%", 100 * r.target),
             fmt::format("{:.1f}%", 100 * r.reached), fmt::format("{:.1f}%", 100 * plan.fp4_share),
             fmt::format("{:.1f}", plan.bits), fmt::format("{:.2f}x", plan.speedup),
             fmt::format("{:.2e}", r.predicted_loss), fmt::format("{:.2e}", r.predicted_weight),
             fmt::format("{:.3f} s", r.seconds)});
        if (!outcome.evaluated) continue;
        const bool known = plan.realised.has_value();
        rows.back().push_back(known ? fmt::format("{:.2e}", plan.realised->real.loss) : "-");
        rows.back().push_back(known ? fmt::format("{:.2e}", plan.realised->real.weight) : "-");
        rows.back().push_back(fmt::format("{:.4f}", *plan.loss));
        rows.back().push_back(
            fmt::format("{:+.3f}%", 100 * (*plan.loss - outcome.base.mean) / outcome.base.mean));
    }
    if (outcome.evaluated) {
        rows.push_back({"bf16", "-", "-", "0.0%", "16.0", "1.00x", "0", "0", "-", "0", "0",
                        fmt::format("{:.4f}", outcome.base.mean), "-"});
    }
    return table_text(rows);
}

// One line per method through its targets.
train::LineChart curves(const PlanArguments& a, const Outcome& outcome) {
    train::LineChart chart{
        .title = outcome.evaluated ? "Loss against BF16 by plan" : "Predicted damage by plan",
        .x_label = fmt::format("efficiency reached ({}), %", a.efficiency),
        .y_label = outcome.evaluated ? "loss - BF16 loss, nats" : "predicted damage",
        .series = {}};
    for (const train::SolvedPlan& plan : outcome.plans) {
        const plan::PlanResult& r = plan.result;
        if (!r.usable()) continue;
        if (chart.series.empty() || chart.series.back().name != r.plan.method) {
            chart.series.push_back({r.plan.method, {}});
        }
        chart.series.back().points.emplace_back(
            100 * r.reached, outcome.evaluated ? *plan.loss - outcome.base.mean : r.predicted);
    }
    return chart;
}

// Share of FP4 within each type of layer, plan by plan.
std::string types_text(const Outcome& outcome) {
    const plan::LayerTable& table = outcome.measurement.statistics.table;
    std::vector<std::string> types;
    for (const plan::LayerInfo& layer : table) {
        if (layer.candidate && std::find(types.begin(), types.end(), layer.type) == types.end()) {
            types.push_back(layer.type);
        }
    }
    Rows rows{{"method", "target"}};
    rows[0].insert(rows[0].end(), types.begin(), types.end());
    for (const train::SolvedPlan& plan : outcome.plans) {
        if (!plan.result.usable()) continue;
        rows.push_back({plan.result.plan.method, fmt::format("{:.1f}%", 100 * plan.result.target)});
        for (const std::string& type : types) {
            plan::LayerTable layers;
            std::copy_if(table.begin(), table.end(), std::back_inserter(layers),
                         [&](const plan::LayerInfo& layer) { return layer.type == type; });
            rows.back().push_back(
                fmt::format("{:.0f}%", 100 * plan::fp4_share(plan.result.plan, layers)));
        }
    }
    return table_text(rows);
}

std::string layers_text(const nlohmann::ordered_json& rows, const std::vector<std::string>& recipes,
                        const plan::Plan& plan) {
    Rows table{{"layer"}};
    for (const std::string& recipe : recipes) {
        table[0].push_back("DL " + recipe);
        table[0].push_back("DW " + recipe);
    }
    table[0].push_back("planned");
    for (const nlohmann::ordered_json& row : rows) {
        const std::string name = row["name"];
        table.push_back({name});
        for (const std::string& recipe : recipes) {
            for (const char* part : {"loss", "weight"}) {
                table.back().push_back(fmt::format("{:.3e}", row[recipe][part].get<double>()));
            }
        }
        table.back().push_back(plan::recipes_text(plan, name));
    }
    return table_text(table);
}

std::string plan_stages_text(const plan::PlanResult& result) {
    Rows rows{{"stage", "work", "target", "reached"}};
    for (std::size_t s = 0; s < result.stages.size(); ++s) {
        const plan::PlanResult::Stage& stage = result.stages[s];
        rows.push_back({fmt::to_string(s), fmt::format("{:.1f}%", 100 * stage.work),
                        fmt::format("{:.1f}%", 100 * stage.target),
                        fmt::format("{:.1f}%", 100 * stage.reached)});
    }
    return table_text(rows);
}

void show(const PlanArguments& a, const Outcome& outcome) {
    const plan::ModelStatistics& statistics = outcome.measurement.statistics;
    const snip::Measurement& m = outcome.measurement;
    if (a.from_stats.empty()) {
        print(fmt::format(
            "measured at step {}: loss {:.4f}, {} layers; estimator {}, probes {} ({} passes)\n"
            "seconds: {:.2f} measuring (statistics {:.2f}, probes {:.2f}), {:.2f} evaluating\n",
            statistics.step, statistics.loss, statistics.layers.size(), a.estimator, a.probes,
            m.probe_passes, outcome.measure_seconds, m.statistics_seconds, m.probe_seconds,
            outcome.evaluate_seconds));
    } else {
        print(fmt::format("statistics of {}: step {}, loss {:.4f}, {} layers; estimator {}\n",
                          a.from_stats, statistics.step, statistics.loss, statistics.layers.size(),
                          a.estimator));
    }
    print(fmt::format(
              "\nPlans (target and reached: {}; speed: of the planned layers on ideal hardware)\n",
              a.efficiency) +
          plans_text(outcome));
    if (outcome.plans.front().result.stages.size() > 1) {
        print("\nPipeline stages under the first plan\n" +
              plan_stages_text(outcome.plans.front().result));
    }
    print("\nFP4 by type of layer\n" + types_text(outcome));
    const plan::Plan& plan = outcome.plans.front().result.plan;
    print(fmt::format("\nPlan by {}\n", plan.method) + train::plan_table(plan, statistics.table));
    if (a.layers) {
        const plan::LossEstimator estimator = solve_options(a).planner.estimator;
        print("\nPredicted damage of one layer alone\n" +
              layers_text(train::divergences_json(statistics, a.options, estimator), a.options,
                          plan));
    }
    std::vector<std::string> notes = outcome.notes;
    for (const train::SolvedPlan& solved : outcome.plans) {
        for (const std::string& note : solved.result.notes) {
            notes.push_back(fmt::format("{}: {}", solved.result.plan.method, note));
        }
    }
    for (const std::string& note : notes) print("note: " + note + "\n");
    for (const std::string& file : {a.out, a.save_stats, a.svg}) {
        if (!file.empty()) print("written: " + file + "\n");
    }
}

nlohmann::ordered_json outcome_json(const PlanArguments& a, const Outcome& outcome) {
    const snip::Measurement& m = outcome.measurement;
    nlohmann::ordered_json json{{"step", m.statistics.step},
                                {"loss", m.statistics.loss},
                                {"layers", m.statistics.layers.size()},
                                {"estimator", a.estimator}};
    if (a.from_stats.empty()) {
        json["probes"] = a.probes;
        json["probe_passes"] = m.probe_passes;
        json["seconds"] = {{"measure", outcome.measure_seconds},
                           {"statistics", m.statistics_seconds},
                           {"probes", m.probe_seconds},
                           {"evaluate", outcome.evaluate_seconds}};
    }
    if (outcome.evaluated) {
        json["evaluation"] = {{"targets", outcome.base.targets}, {"bf16_loss", outcome.base.mean}};
    }
    for (const train::SolvedPlan& plan : outcome.plans) {
        json["plans"].push_back(train::to_json(plan));
        if (outcome.evaluated) {
            nlohmann::ordered_json& row = json["plans"].back();
            row["loss"] = row["loss_gap"] = nullptr;
            if (!plan.loss) continue;
            row["loss"] = *plan.loss;
            row["loss_gap"] = *plan.loss - outcome.base.mean;
        }
    }
    if (a.layers) {
        json["divergences"] =
            train::divergences_json(m.statistics, a.options, solve_options(a).planner.estimator);
    }
    json["notes"] = outcome.notes;
    return json;
}

}  // namespace

void plan_checkpoint(const PlanArguments& arguments) {
    const Outcome outcome = make_plans(arguments);
    if (!arguments.svg.empty()) write_text(arguments.svg, to_svg(curves(arguments, outcome)));
    if (arguments.json) return print_json(outcome_json(arguments, outcome));
    show(arguments, outcome);
}

}  // namespace subbyte::cli
