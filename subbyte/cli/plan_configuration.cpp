// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte plan CONFIG [--set KEY=VALUE]... [--stages N] [--target X] [--method M] ...
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "subbyte/cli/console.h"
#include "subbyte/cli/output.h"
#include "subbyte/cli/plan.h"
#include "subbyte/core/error.h"
#include "subbyte/io/json_file.h"
#include "subbyte/train/config_reader.h"
#include "subbyte/train/plan_model.h"
#include "subbyte/train/run_report.h"

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
    const plan::CostEstimate& cost = plan.costs.back().cost;
    Rows rows{{"stage", "blocks", "FLOPs", "memory", "FP4 share", "time"}};
    for (std::size_t s = 0; s < cost.stages.size(); ++s) {
        int first = -1, last = -1;
        for (const plan::LayerInfo& layer : plan.table) {
            if (layer.stage != static_cast<int>(s) || layer.block < 0) continue;
            if (first < 0) first = layer.block;
            last = layer.block;
        }
        const plan::Cost& stage = cost.stages[s];
        rows.push_back({fmt::to_string(s), fmt::format("{} .. {}", first, last),
                        percent(stage.gemm_flops / cost.total.gemm_flops),
                        bytes_text(stage.bytes()), percent(plan.stage_fp4_share[s]),
                        percent(stage.modelled_time / cost.total.modelled_time)});
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
    if (plan.stage_fp4_share.size() > 1) {
        print("\nPipeline stages under the plan\n" + stages_text(plan));
    }
    const plan::PlanResult& result = plan.result;
    print(fmt::format("\nPlan by {}: FP4 share {}, {:.1f} bits on average; {} {}, target {}\n",
                      result.plan.method, percent(plan::fp4_share(plan.plan, plan.table)),
                      plan::effective_bits(plan.plan, plan.table),
                      plan::efficiency_name(result.efficiency), percent(result.reached),
                      percent(result.target)));
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
    if (a.given("--seed")) sets.push_back(fmt::format("run.seed={}", a.checkpoint.seed));
    const train::Config config = train::load_config(a.what, sets).config;
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
    const train::ModelPlan plan = train::plan_model(configuration(arguments), arguments.stages);
    if (!arguments.out.empty()) io::write_json(arguments.out, plan::to_json(plan.result.plan));
    if (arguments.json) return print_json(train::to_json(plan));
    show(plan);
    if (!arguments.out.empty()) print("written: " + arguments.out + "\n");
}

}  // namespace subbyte::cli
