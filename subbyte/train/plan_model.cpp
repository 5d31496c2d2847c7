// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/plan_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/data/tokenizer.h"
#include "subbyte/train/config_model.h"
#include "subbyte/train/config_rules.h"
#include "subbyte/train/model_folder.h"
#include "subbyte/train/plan_file.h"

namespace subbyte::train {
namespace {

models::LlamaConfig shape_of(const Config& config, std::vector<std::string>& notes) {
    if (!config.model.path.empty()) return read_model_config(config.model.path);
    std::int64_t vocabulary = config.data.vocab_size;
    if (config.data.tokenizer == "bytes") vocabulary = data::make_byte_tokenizer()->vocab_size();
    if (config.model.vocab_size == 0 && config.data.tokenizer != "sentencepiece" &&
        config.data.tokenizer != "bytes") {
        notes.push_back(fmt::format(
            "vocabulary of data.vocab_size ({}): the tokenizer file is not read", vocabulary));
    }
    const models::LlamaConfig shape = model_config(config, vocabulary);
    models::check(shape);
    return shape;
}

// Methods that need no statistics.
bool plans_shapes(const std::string& method) {
    return method == "uniform" || method == "random" || method == "layer-type" ||
           method == "layer-id";
}

plan::PlanResult make_result(const Config& config, const plan::LayerTable& table,
                             std::vector<std::string>& notes) {
    const Config::Precision& precision = config.precision;
    plan::PlanResult result;
    if (!precision.plan.empty()) {
        result.plan = load_plan(precision.plan, table);
        result.reached = plan::fp4_share(result.plan, table);
        result.target = result.reached;
        notes.push_back(fmt::format("the plan is that of {}", precision.plan));
        return result;
    }
    plan::PlannerOptions options;
    options.method = precision.snip.method;
    if (!plans_shapes(options.method)) {
        options.method = "layer-type";
        notes.push_back(
            fmt::format("method {} needs statistics of a trained model; this plan is by layer-type "
                        "(`subbyte plan "
                        "MODEL_DIR --data TEXT` measures)",
                        precision.snip.method));
    }
    options.recipes = precision.snip.options;
    options.target = precision.snip.target;
    options.efficiency = plan::efficiency_from_name(precision.snip.efficiency);
    options.seed = static_cast<std::uint64_t>(config.run.seed);
    result = plan::make_plan(table, {}, options);
    notes.insert(notes.end(), result.notes.begin(), result.notes.end());
    if (precision.recipe != "snip") {
        notes.push_back(
            fmt::format("a training of this configuration runs {} everywhere; train by a plan "
                        "with precision.recipe = \"snip\" or precision.plan",
                        precision.recipe));
    }
    return result;
}

plan::Plan with_fixed(plan::Plan plan,
                      const std::map<std::string, std::array<std::string, 3>>& fixed) {
    for (const auto& [name, recipes] : fixed) plan.layers[name] = recipes;
    return plan;
}

}  // namespace

std::vector<LayerType> layer_types(const plan::LayerTable& table) {
    std::vector<LayerType> types;
    double total = 0;
    for (const plan::LayerInfo& layer : table) {
        auto type = std::find_if(types.begin(), types.end(),
                                 [&](const LayerType& t) { return t.type == layer.type; });
        if (type == types.end()) {
            types.push_back({.type = layer.type,
                             .in_features = layer.in_features,
                             .out_features = layer.out_features});
            type = types.end() - 1;
        }
        ++type->layers;
        type->candidate = type->candidate || layer.candidate;
        type->same_shape = type->same_shape && layer.in_features == type->in_features &&
                           layer.out_features == type->out_features;
        type->parameters += layer.weights();
        type->flops_share += layer.slot_flops();
        total += layer.slot_flops();
    }
    for (LayerType& type : types) type.flops_share = total > 0 ? type.flops_share / total : 0.0;
    return types;
}

void balance_stages(plan::LayerTable& table, int stages) {
    int blocks = 0;
    for (const plan::LayerInfo& layer : table) blocks = std::max(blocks, layer.block + 1);
    if (stages < 1 || stages > std::max(blocks, 1)) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("{} pipeline stages for {} blocks", stages, blocks),
                    "every stage needs a block: give 1 .. the number of blocks");
    }
    std::vector<double> work(static_cast<std::size_t>(blocks), 0.0);
    double left = 0;
    for (const plan::LayerInfo& layer : table) {
        if (layer.block >= 0) work[static_cast<std::size_t>(layer.block)] += layer.slot_flops();
        left += layer.slot_flops();
    }
    std::vector<int> stage(work.size(), stages - 1);
    std::size_t block = 0;
    for (int s = 0; s < stages - 1; ++s) {
        const auto later = static_cast<std::size_t>(stages - 1 - s);
        const double mean = left / static_cast<double>(later + 1);
        double load = 0;
        const std::size_t first = block;
        while (block + later < work.size() &&
               (block == first || std::abs(load + work[block] - mean) <= std::abs(load - mean))) {
            load += work[block];
            stage[block++] = s;
        }
        left -= load;
    }
    for (plan::LayerInfo& layer : table) {
        layer.stage = layer.block >= 0 ? stage[static_cast<std::size_t>(layer.block)] : stages - 1;
    }
}

ModelPlan plan_model(const Config& config, int stages) {
    ModelPlan result;
    const models::LlamaConfig shape = shape_of(config, result.notes);
    result.model = config.model.path.empty() ? config.model.preset : config.model.path;
    if (result.model.empty()) result.model = "llama";
    result.micro_batches = config.train.grad_accum;
    result.tokens_per_step = config.train.batch_size * config.train.seq_len;
    result.micro_batch_tokens = result.tokens_per_step / result.micro_batches;
    result.parameters = static_cast<double>(models::parameter_count(shape));
    result.table = models::layer_table(shape, result.micro_batch_tokens);
    balance_stages(result.table, stages);
    const auto fixed = fixed_layers(config.precision, result.table);
    plan::CostOptions options;
    options.other_parameters = result.parameters;
    for (plan::LayerInfo& layer : result.table) {
        if (fixed.contains(layer.name)) layer.candidate = false;
        options.other_parameters -= layer.weights();
    }
    result.result = make_result(config, result.table, result.notes);
    result.plan = with_fixed(result.result.plan, fixed);

    const auto add_cost = [&](const std::string& name, const plan::Plan& plan) {
        result.costs.push_back({name, plan::estimate_cost(plan, result.table, options)});
    };
    for (const std::string recipe : {"bf16", "fp8", "fp4"}) {
        add_cost(recipe, with_fixed(plan::uniform_plan(result.table, recipe), fixed));
    }
    add_cost("plan", result.plan);
    for (int s = 0; s < stages; ++s) {
        plan::LayerTable part;
        std::copy_if(result.table.begin(), result.table.end(), std::back_inserter(part),
                     [&](const plan::LayerInfo& layer) { return layer.stage == s; });
        result.stage_fp4_share.push_back(plan::fp4_share(result.plan, part));
    }
    return result;
}

nlohmann::ordered_json to_json(const plan::Cost& cost) {
    return {{"gemm_flops", cost.gemm_flops},
            {"speedup", cost.speedup()},
            {"candidate_speedup", cost.candidate_speedup()},
            {"bytes",
             {{"weights", cost.master_weights},
              {"gradients", cost.gradients},
              {"optimizer", cost.optimizer_states},
              {"quantised_weights", cost.quantised_weights},
              {"saved_activations", cost.saved_activations},
              {"total", cost.bytes()}}}};
}

nlohmann::ordered_json to_json(const ModelPlan& plan) {
    nlohmann::ordered_json json{{"model", plan.model},
                                {"parameters", plan.parameters},
                                {"tokens_per_step", plan.tokens_per_step},
                                {"micro_batches", plan.micro_batches},
                                {"layers", nlohmann::ordered_json::array()}};
    for (const LayerType& type : layer_types(plan.table)) {
        json["layers"].push_back({{"type", type.type},
                                  {"layers", type.layers},
                                  {"in_features", type.in_features},
                                  {"out_features", type.out_features},
                                  {"same_shape", type.same_shape},
                                  {"parameters", type.parameters},
                                  {"flops_share", type.flops_share},
                                  {"candidate", type.candidate}});
    }
    for (const NamedCost& cost : plan.costs) {
        nlohmann::ordered_json entry = to_json(cost.cost.total);
        if (plan.stage_fp4_share.size() > 1) {
            for (const plan::Cost& stage : cost.cost.stages)
                entry["stages"].push_back(to_json(stage));
        }
        json["costs"][cost.name] = std::move(entry);
    }
    const plan::PlanResult& result = plan.result;
    json["efficiency"] = std::string(plan::efficiency_name(result.efficiency));
    json["target"] = result.target;
    json["reached"] = result.reached;
    json["fp4_share"] = plan::fp4_share(plan.plan, plan.table);
    json["effective_bits"] = plan::effective_bits(plan.plan, plan.table);
    json["stage_fp4_share"] = plan.stage_fp4_share;
    json["plan"] = plan::to_json(result.plan);
    json["notes"] = plan.notes;
    return json;
}

}  // namespace subbyte::train
