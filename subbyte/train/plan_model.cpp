// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/plan_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/data/tokenizer.h"
#include "subbyte/plan/stages.h"
#include "subbyte/train/config_model.h"
#include "subbyte/train/config_rules.h"
#include "subbyte/train/model_folder.h"
#include "subbyte/train/plan_candidates.h"
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

plan::PlanResult make_result(const Config& config, const plan::LayerTable& table,
                             const ModelPlanOptions& given, std::vector<std::string>& notes) {
    const Config::Precision& precision = config.precision;
    plan::PlanResult result;
    if (!precision.plan.empty()) {
        result.plan = load_plan(precision.plan, table);
        result.reached = plan::fp4_share(result.plan, table);
        result.target = result.reached;
        notes.push_back(fmt::format("the plan is that of {}", precision.plan));
        return result;
    }
    plan::PlannerOptions options = given.planner;
    options.method = precision.snip.method;
    if (plan::needs_statistics(options.method) && given.statistics.layers.empty()) {
        options.method = "layer-type";
        notes.push_back(
            fmt::format("method {} needs statistics of a trained model; this plan is by layer-type "
                        "(`subbyte plan MODEL_DIR --data TEXT` measures, --from-stats takes them "
                        "from a file)",
                        precision.snip.method));
    }
    options.recipes = precision.snip.options;
    options.target = precision.snip.target;
    options.efficiency = plan::efficiency_from_name(precision.snip.efficiency);
    options.granularity = plan::granularity_from_name(precision.snip.granularity);
    options.coupled = precision.snip.coupled;
    options.squared = precision.snip.squared;
    options.seed = static_cast<std::uint64_t>(config.run.seed);
    result = plan::make_plan(table, given.statistics, options);
    if (!result.usable()) {
        throw Error(ErrorCode::kUsage, result.notes.back(), "give more --seconds");
    }
    notes.insert(notes.end(), result.notes.begin(), result.notes.end());
    if (precision.recipe != "snip") {
        notes.push_back(
            fmt::format("a training of this configuration runs {} everywhere; train by a plan "
                        "with precision.recipe = \"snip\" or precision.plan",
                        precision.recipe));
    }
    return result;
}

void add_stages(ModelPlan& result) {
    const std::vector<plan::Cost>& costs = result.costs.back().cost.stages;
    for (std::size_t s = 0; s < costs.size(); ++s) {
        StagePlan stage{.cost = costs[s]};
        plan::LayerTable part;
        for (const plan::LayerInfo& layer : result.table) {
            if (layer.stage != static_cast<int>(s)) continue;
            part.push_back(layer);
            if (layer.block < 0) continue;
            if (stage.first_block < 0) stage.first_block = layer.block;
            stage.last_block = layer.block;
        }
        stage.fp4_share = plan::fp4_share(result.plan, part);
        if (s < result.result.stages.size()) {
            stage.target = result.result.stages[s].target;
            stage.reached = result.result.stages[s].reached;
        } else {  // a plan that was given
            stage.target = stage.reached = stage.fp4_share;
        }
        result.stages.push_back(stage);
    }
}

// The plan and the layers that it does not choose for.
plan::Plan with_fixed(plan::Plan plan, plan::LayerTable table) {
    for (plan::LayerInfo& layer : table) layer.candidate = true;
    plan::apply_pins(plan, table);
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

ModelPlan plan_model(const Config& config, const ModelPlanOptions& options) {
    ModelPlan result;
    const models::LlamaConfig shape = shape_of(config, result.notes);
    result.model = config.model.path.empty() ? config.model.preset : config.model.path;
    if (result.model.empty()) result.model = "llama";
    result.micro_batches = config.train.grad_accum;
    result.tokens_per_step = config.train.batch_size * config.train.seq_len;
    result.micro_batch_tokens = result.tokens_per_step / result.micro_batches;
    result.parameters = static_cast<double>(models::parameter_count(shape));
    result.table = models::layer_table(shape, result.micro_batch_tokens);
    const std::vector<std::int64_t>& stages = config.precision.snip.stages;
    if (!options.first_blocks.empty()) {
        plan::set_stages(result.table, options.first_blocks);
    } else if (options.stages != 1) {
        plan::balance_stages(result.table, options.stages);
    } else {
        plan::assign_stages(result.table, {stages.begin(), stages.end()});
    }
    const auto fixed = fixed_layers(config.precision, result.table);
    plan::CostOptions cost_options;
    cost_options.other_parameters = result.parameters;
    for (plan::LayerInfo& layer : result.table) {
        const auto found = fixed.find(layer.name);
        if (found != fixed.end()) layer.pinned = found->second;
        layer.candidate = true;  // the head too, unless it is fixed
        layer.candidate = layer.planned_slots() > 0;
        cost_options.other_parameters -= layer.weights();
    }
    choose_candidates(result.table, options.include, options.exclude);
    result.result = make_result(config, result.table, options, result.notes);
    result.plan = with_fixed(result.result.plan, result.table);
    if (options.planner.profile) {
        result.times = plan::measured_times(result.table, *options.planner.profile,
                                            config.precision.snip.options);
    }

    const auto add_cost = [&](const std::string& name, const plan::Plan& plan) {
        result.costs.push_back({name, plan::estimate_cost(plan, result.table, cost_options)});
    };
    for (const char* const recipe : {"bf16", "fp8", "fp4"}) {
        add_cost(recipe, with_fixed(plan::uniform_plan(result.table, recipe), result.table));
    }
    add_cost("plan", result.plan);
    add_stages(result);
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

nlohmann::ordered_json to_json(const plan::MeasuredTime& time) {
    return {{"type", time.type},
            {"layers", time.layers},
            {"tokens", time.tokens},
            {"in_features", time.in_features},
            {"out_features", time.out_features},
            {"recipe", time.recipe},
            {"seconds", time.seconds},
            {"quantise_seconds", time.quantise},
            {"bf16_seconds", time.bf16_seconds},
            {"measured", time.measured},
            {"pays", time.pays()}};
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
        if (plan.stages.size() > 1) {
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
    for (const StagePlan& stage : plan.stages) {
        const plan::Cost& all = plan.costs.back().cost.total;
        json["stages"].push_back(
            {{"first_block", stage.first_block},
             {"last_block", stage.last_block},
             {"flops_share", all.gemm_flops > 0 ? stage.cost.gemm_flops / all.gemm_flops : 0.0},
             {"time_share",
              all.modelled_time > 0 ? stage.cost.modelled_time / all.modelled_time : 0.0},
             {"fp4_share", stage.fp4_share},
             {"target", stage.target},
             {"reached", stage.reached},
             {"cost", to_json(stage.cost)}});
    }
    for (const plan::MeasuredTime& time : plan.times) json["times"].push_back(to_json(time));
    if (result.predicted > 0) {
        json["predicted_loss"] = result.predicted_loss;
        json["predicted_weight"] = result.predicted_weight;
        json["gap"] = result.gap;
    }
    json["plan"] = plan::to_json(result.plan);
    json["notes"] = plan.notes;
    return json;
}

}  // namespace subbyte::train
