// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/cost_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "subbyte/core/error.h"

namespace subbyte::plan {
namespace {

// Bytes of a packed rows x cols operand; 0 for FP32, which is a reference to its source.
double copy_bytes(const formats::QuantSpec& spec, std::int64_t rows, std::int64_t cols) {
    if (spec.is_fp32()) return 0.0;
    return formats::bits_per_value(spec, rows, cols) * double(rows) * double(cols) / 8;
}

void add_parameters(Cost& cost, double count, const CostOptions& options) {
    cost.parameters += count;
    cost.master_weights += count * options.master_bytes;
    cost.gradients += count * options.gradient_bytes;
    cost.optimizer_states += count * options.optimizer_bytes;
}

Cost layer_cost(const Plan& plan, const LayerInfo& layer, const CostOptions& options) {
    Cost cost;
    add_parameters(cost, layer.weights(), options);
    for (const Slot slot : kSlots) {
        const SlotRecipe recipe = find_recipe(plan.recipe(layer.name, slot))[slot];
        const double time = layer.slot_flops() / modelled_speed(recipe);
        cost.gemm_flops += layer.slot_flops();
        cost.modelled_time += time;
        if (layer.plans(slot)) {
            cost.candidate_flops += layer.slot_flops();
            cost.candidate_time += time;
        }
        (slot == Slot::kWgrad ? cost.saved_activations : cost.quantised_weights) +=
            slot_bytes(recipe, slot, layer);
    }
    return cost;
}

}  // namespace

double modelled_speed(const SlotRecipe& slot) { return 16.0 / slot.widest_bits(); }

double slot_bytes(const SlotRecipe& recipe, Slot slot, const LayerInfo& layer) {
    switch (slot) {
        case Slot::kFprop: return copy_bytes(recipe.b, layer.out_features, layer.in_features);
        case Slot::kDgrad: return copy_bytes(recipe.b, layer.in_features, layer.out_features);
        case Slot::kWgrad: break;
    }
    return recipe.b.is_fp32() ? 4.0 * double(layer.tokens) * double(layer.in_features)
                              : copy_bytes(recipe.b, layer.in_features, layer.tokens);
}

Cost& Cost::operator+=(const Cost& other) {
    gemm_flops += other.gemm_flops;
    candidate_flops += other.candidate_flops;
    modelled_time += other.modelled_time;
    candidate_time += other.candidate_time;
    parameters += other.parameters;
    master_weights += other.master_weights;
    gradients += other.gradients;
    optimizer_states += other.optimizer_states;
    quantised_weights += other.quantised_weights;
    saved_activations += other.saved_activations;
    return *this;
}

CostEstimate estimate_cost(const Plan& plan, const LayerTable& table, const CostOptions& options) {
    CostEstimate estimate;
    estimate.stages.resize(static_cast<std::size_t>(std::max(stage_count(table), 1)));
    for (const LayerInfo& layer : table) {
        if (layer.in_features < 0 || layer.out_features < 0 || layer.tokens < 0) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("layer '{}': {} inputs, {} outputs, {} tokens", layer.name,
                                    layer.in_features, layer.out_features, layer.tokens),
                        "shapes are 0 or more");
        }
        estimate.stages[static_cast<std::size_t>(layer.stage)] += layer_cost(plan, layer, options);
    }
    add_parameters(estimate.stages[0], options.other_parameters, options);
    for (const Cost& stage : estimate.stages) estimate.total += stage;
    return estimate;
}

}  // namespace subbyte::plan
