// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte plan CONFIG [--set KEY=VALUE]... [--stages N] [--target X] [--method M] ...
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "subbyte/cli/bench.h"
#include "subbyte/cli/console.h"
#include "subbyte/cli/output.h"
#include "subbyte/cli/plan.h"
#include "subbyte/core/error.h"
#include "subbyte/io/json_file.h"
#include "subbyte/train/config_reader.h"
#include "subbyte/train/inspect_plan.h"
#include "subbyte/train/plan_model.h"
#include "subbyte/train/plan_table.h"

namespace subbyte::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string percent(double share) { return fmt::format("{:.1f}%", 100.0 * share); }

std::string layers_text(const train::ModelPlan& plan) {
    Rows rows{{"type", "layers", "out x in", "parameters", "FLOPs", "planned"}};
    for (const train::LayerType& type : train::layer_types(plan.table)) {
        rows.push_back({type.type, fmt::to_string(type.layers),
                        fmt::format("{} x {}{}", type.out_features, type.in_features,
                                    type.same_shape ? "" : " ..."),
                        count_text(type.parameters), percent(type.flops_share),
                        type.candidate ? "yes" : "no"});
    }
    return table_text(rows);
}

std::string costs_text(const train::ModelPlan& plan) {
    Rows rows{{"everywhere"},       {"weights"},      {"gradients"}, {"optimizer"},
              {"quantised copies"}, {"saved inputs"}, {"memory"},    {"modelled speed"}};
    for (const train::NamedCost& entry : plan.costs) {
        const plan::Cost& cost = entry.cost.total;
        rows[0].push_back(entry.name);
        std::size_t row = 1;
        for (const double bytes : {cost.master_weights, cost.gradients, cost.optimizer_states,
                                   cost.quantised_weights, cost.saved_activations, cost.bytes()}) {
            rows[row++].push_back(bytes_text(bytes));
        }
        rows[row].push_back(fmt::format("{:.2f}x", cost.speedup()));
    }
    return table_text(rows);
}

std::string stages_text(const train::ModelPlan& plan) {
    const plan::Cost& total = plan.costs.back().cost.total;
    Rows rows{{"stage", "blocks", "FLOPs", "memory", "FP4 share", "target", "reached", "time",
               "modelled speed"}};
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
        const train::StagePlan& stage = plan.stages[s];
        rows.push_back(
            {fmt::to_string(s), fmt::format("{} .. {}", stage.first_block, stage.last_block),
             percent(stage.cost.gemm_flops / total.gemm_flops), bytes_text(stage.cost.bytes()),
             percent(stage.fp4_share), percent(stage.target), percent(stage.reached),
             percent(stage.cost.modelled_time / total.modelled_time),
             fmt::format("{:.2f}x", stage.cost.speedup())});
    }
    return table_text(rows);
}

void show(const train::ModelPlan& plan) {
    print(fmt::format(
        "{}: {} parameters, {} linear layers; {} tokens per step in {} micro-batches, {:.3g} "
        "FLOPs\n\n",
        plan.model, count_text(plan.parameters), plan.table.size(), plan.tokens_per_step,
        plan.micro_batches, plan.costs.front().cost.total.gemm_flops * double(plan.micro_batches)));
    print("Linear layers (FLOPs: share of their matrix multiplications)\n" + layers_text(plan));
    print(
        "\nMemory with one micro-batch, and speed over BF16 of the linear layers on ideal "
        "hardware\n" +
        costs_text(plan));
    if (plan.stages.size() > 1) {
        print("\nPipeline stages under the plan\n" + stages_text(plan));
    }
    if (!plan.times.empty()) {
        print("\nMeasured times of one layer (three GEMMs with quantising)\n" +
              times_text(plan.times));
    }
    const plan::PlanResult& result = plan.result;
    print(fmt::format("\nPlan by {}: FP4 share {}, {:.1f} bits on average; {} {}, target {}\n",
                      result.plan.method, percent(plan::fp4_share(plan.plan, plan.table)),
                      plan::effective_bits(plan.plan, plan.table),
                      plan::efficiency_name(result.efficiency), percent(result.reached),
                      percent(result.target)));
    if (result.predicted > 0) {
        print(fmt::format("predicted: DL {:.3e}, DW {:.3e}; gap of the solver {:.1e}\n",
                          result.predicted_loss, result.predicted_weight, result.gap));
    }
    print(train::plan_table(result.plan, plan.table));
    for (const std::string& note : plan.notes) print("note: " + note + "\n");
}

// The configuration with what the options say laid over it.
train::Config configuration(const PlanArguments& a) {
    std::vector<std::string> sets = a.sets;
    if (a.targets.size() > 1 || a.methods.size() > 1) {
        throw Error(ErrorCode::kUsage, "several targets or methods for a configuration",
                    "give one of each; several are compared for a model folder with --data TEXT");
    }
    if (a.given("--target")) {
        sets.push_back(fmt::format("precision.snip.target={}", a.targets.front()));
        sets.push_back("precision.snip.max_target=1");
    }
    if (a.given("--method")) sets.push_back("precision.snip.method=" + a.methods.front());
    if (a.given("--options")) {
        sets.push_back(
            fmt::format("precision.snip.options=[\"{}\"]", fmt::join(a.options, "\", \"")));
    }
    if (a.given("--efficiency")) sets.push_back("precision.snip.efficiency=" + a.efficiency);
    if (a.given("--granularity")) sets.push_back("precision.snip.granularity=" + a.granularity);
    if (a.given("--coupled")) {
        sets.push_back(
            fmt::format("precision.snip.coupled=[\"{}\"]", fmt::join(a.coupled, "\", \"")));
    }
    if (a.given("--profile")) {
        sets.push_back(fmt::format("precision.snip.profile=\"{}\"", a.profile));
    }
    if (a.given("--seed")) sets.push_back(fmt::format("run.seed={}", a.checkpoint.seed));
    train::Config config = train::load_config(a.what, sets).config;
    for (const char* option : {"--target", "--method", "--options", "--efficiency", "--seed"}) {
        if (config.precision.plan.empty() || !a.given(option)) continue;
        throw Error(ErrorCode::kUsage,
                    fmt::format("{}: the plan of {} is given: precision.plan = \"{}\"", option,
                                a.what, config.precision.plan),
                    "have one made with --set 'precision.plan=\"\"'");
    }
    return config;
}

}  // namespace

void plan_configuration(const PlanArguments& arguments) {
    const train::Config config = configuration(arguments);
    PlanArguments given = arguments;
    given.profile = config.precision.snip.profile;
    train::ModelPlanOptions options{.stages = arguments.stages,
                                    .first_blocks = arguments.stage_starts,
                                    .include = arguments.include,
                                    .exclude = arguments.exclude,
                                    .planner = planner_options(given, config.run.threads),
                                    .statistics = {}};
    if (!arguments.from_stats.empty()) {
        options.statistics = train::read_statistics(arguments.from_stats);
    }
    const train::ModelPlan plan = train::plan_model(config, options);
    if (!arguments.out.empty()) io::write_json(arguments.out, plan::to_json(plan.result.plan));
    if (arguments.json) return print_json(train::to_json(plan));
    show(plan);
    if (!arguments.out.empty()) print("written: " + arguments.out + "\n");
}

}  // namespace subbyte::cli
