// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/divergence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "subbyte/core/error.h"
#include "subbyte/plan/recipe.h"
#include "subbyte/plan/statistics_check.h"

namespace subbyte::plan {
namespace {

double square(double value) { return value * value; }

// 0 / 0 is 0: a layer without work or weight does no damage.
double ratio(double numerator, double denominator) {
    return numerator == 0 ? 0.0 : numerator / denominator;
}

constexpr const char* kNotFinite = "the training step was not finite; no plan can be made of it";

[[noreturn]] void fail_nonfinite(const std::string& layer, const std::string& what, double value) {
    throw Error(ErrorCode::kDiverged,
                fmt::format("statistics of '{}': {} is {}", layer, what, value), kNotFinite);
}

// Squared error of the result of a GEMM A B^T that contracts `length` elements.
double product_error(double a, double b, const std::array<double, 2>& errors, double length) {
    return ratio(square(errors[0] * b) + square(a * errors[1]), length);
}

// |E_Y|^2, |b|^2 and |a|^2, by slot.
std::array<double, 3> result_errors(const LayerStatistics& s, const LayerStatistics::Errors& e) {
    return {product_error(s.x, s.w, e.of(Slot::kFprop), s.k),
            product_error(s.g, s.w, e.of(Slot::kDgrad), s.n),
            product_error(s.g, s.x, e.of(Slot::kWgrad), s.t)};
}

// |dg_k|^2 of the result errors of layer l, by slot.
std::array<double, 3> gradient_errors(const LayerStatistics& source, std::size_t l, std::size_t k,
                                      const std::array<double, 3>& errors) {
    std::array<double, 3> variance{};
    if (!source.forward.empty()) variance[0] = square(source.forward[k]) * errors[0];
    if (k < l && !source.backward.empty()) variance[1] = square(source.backward[k]) * errors[1];
    if (k == l) variance[2] = errors[2];
    return variance;
}

// Mean over all layers k of the relative change of W_k after one optimizer step: of the errors of
// each slot alone, and of all together.
struct WeightChange {
    std::array<double, 3> slots{};
    double layer = 0;
};

// Share of DW that a gradient error of norm 1 at layer k causes. A weight of zeros has no relative
// change; it is left out like any layer that has no statistics.
double update_change(const ModelStatistics& statistics, std::size_t k) {
    const LayerStatistics& s = statistics.layers[k];
    if (!(s.w > 0)) return 0;
    return ratio(s.jacobian, std::sqrt(s.update_numel)) / s.w /
           static_cast<double>(statistics.layers.size());
}

WeightChange weight_change(const ModelStatistics& statistics, std::size_t l,
                           const std::array<double, 3>& errors) {
    WeightChange result;
    for (std::size_t k = 0; k < statistics.layers.size(); ++k) {
        const double unit = update_change(statistics, k);
        const std::array<double, 3> variance = gradient_errors(statistics.layers[l], l, k, errors);
        for (std::size_t slot = 0; slot < 3; ++slot) {
            result.slots[slot] += unit * std::sqrt(variance[slot]);
        }
        result.layer += unit * std::sqrt(variance[0] + variance[1] + variance[2]);
    }
    return result;
}

// The damage of a recipe in a layer, whole and by slot.
struct LayerDamage {
    Divergence layer;
    std::array<Divergence, 3> slots{};
};

// Calls visit(l, r, damage) for every candidate and recipe.
template <typename Visit>
void for_each_damage(const ModelStatistics& statistics, const std::vector<std::string>& recipes,
                     LossEstimator estimator, Visit visit) {
    check_statistics(statistics);
    for (std::size_t l = 0; l < statistics.layers.size(); ++l) {
        if (!statistics.table[l].candidate) continue;
        const LayerStatistics& layer = statistics.layers[l];
        const std::string& name = statistics.table[l].name;
        for (std::size_t r = 0; r < recipes.size(); ++r) {
            const LayerStatistics::Errors errors = quantisation_errors(layer, name, recipes[r]);
            const double loss = ratio(loss_change(layer, name, recipes[r], estimator).size(),
                                      std::abs(statistics.loss));
            const WeightChange change = weight_change(statistics, l, result_errors(layer, errors));
            if (!std::isfinite(loss) || !std::isfinite(change.layer)) {
                fail_nonfinite(name, fmt::format("the divergence of '{}'", recipes[r]),
                               std::isfinite(loss) ? change.layer : loss);
            }
            LayerDamage damage{.layer = {loss, change.layer}};
            for (std::size_t slot = 0; slot < 3; ++slot)
                damage.slots[slot].weight = change.slots[slot];
            damage.slots[0].loss = loss;
            visit(l, r, damage);
        }
    }
}

}  // namespace

bool is_unmeasured(const LayerStatistics& layer) {
    return layer.x == 0 && layer.y == 0 && layer.g == 0 && layer.dw == 0;
}

LayerStatistics::Errors quantisation_errors(const LayerStatistics& layer,
                                            const std::string& layer_name,
                                            const std::string& recipe) {
    if (find_recipe(recipe).is_high_precision()) return {};
    const auto entry = layer.errors.find(recipe);
    if (entry == layer.errors.end()) {
        if (is_unmeasured(layer)) return {};
        std::vector<std::string> measured;
        for (const auto& [name, errors] : layer.errors) measured.push_back(name);
        throw Error(
            ErrorCode::kUsage,
            fmt::format("statistics of '{}' hold no errors for recipe '{}'", layer_name, recipe),
            fmt::format("measured: {}; measure again with this recipe among the options",
                        measured.empty() ? "none" : fmt::format("{}", fmt::join(measured, ", "))));
    }
    const LayerStatistics::Errors& errors = entry->second;
    for (const double value :
         {errors.ex, errors.ew, errors.eg, errors.ew_dgrad.value_or(0), errors.eg_wgrad.value_or(0),
          errors.ex_wgrad.value_or(0), errors.first_order.value_or(0)}) {
        if (!std::isfinite(value)) {
            fail_nonfinite(layer_name, fmt::format("the quantisation error of '{}'", recipe),
                           value);
        }
    }
    return errors;
}

std::vector<std::vector<Divergence>> estimate_divergence(const ModelStatistics& statistics,
                                                         const std::vector<std::string>& recipes,
                                                         LossEstimator estimator) {
    std::vector<std::vector<Divergence>> result(statistics.layers.size(),
                                                std::vector<Divergence>(recipes.size()));
    for_each_damage(
        statistics, recipes, estimator,
        [&](std::size_t l, std::size_t r, const LayerDamage& d) { result[l][r] = d.layer; });
    return result;
}

std::vector<std::vector<std::array<Divergence, 3>>> estimate_slot_divergence(
    const ModelStatistics& statistics, const std::vector<std::string>& recipes,
    LossEstimator estimator) {
    std::vector<std::vector<std::array<Divergence, 3>>> result(
        statistics.layers.size(), std::vector<std::array<Divergence, 3>>(recipes.size()));
    for_each_damage(
        statistics, recipes, estimator,
        [&](std::size_t l, std::size_t r, const LayerDamage& d) { result[l][r] = d.slots; });
    return result;
}

Divergence joined(const LayerInfo& layer, const std::array<Divergence, 3>& slots) {
    Divergence result;
    double squares = 0;
    for (const Slot slot : kSlots) {
        if (!layer.plans(slot)) continue;
        const Divergence& part = slots[static_cast<std::size_t>(slot)];
        result.loss += part.loss;
        squares += square(part.weight);
    }
    result.weight = std::sqrt(squares);
    return result;
}

Divergence estimate_plan_divergence(const ModelStatistics& statistics, const Plan& plan,
                                    LossEstimator estimator) {
    check_statistics(statistics);
    const std::size_t layers = statistics.layers.size();
    LossChange loss;
    std::vector<double> variance(layers, 0.0);  // of the gradient of every layer
    for (std::size_t l = 0; l < layers; ++l) {
        if (!statistics.table[l].candidate) continue;
        const LayerStatistics& layer = statistics.layers[l];
        const std::string& name = statistics.table[l].name;
        if (statistics.table[l].plans(Slot::kFprop)) {
            const LossChange change =
                loss_change(layer, name, plan.recipe(name, Slot::kFprop), estimator);
            loss.shift += change.shift;
            loss.spread = std::hypot(loss.spread, change.spread);
        }
        std::array<double, 3> errors{};
        for (const Slot slot : kSlots) {
            if (!statistics.table[l].plans(slot)) continue;
            const auto slot_errors = quantisation_errors(layer, name, plan.recipe(name, slot));
            const auto i = static_cast<std::size_t>(slot);
            errors[i] = result_errors(layer, slot_errors)[i];
        }
        for (std::size_t k = 0; k < layers; ++k) {
            for (const double part : gradient_errors(layer, l, k, errors)) variance[k] += part;
        }
    }
    Divergence result{.loss = ratio(loss.size(), std::abs(statistics.loss))};
    for (std::size_t k = 0; k < layers; ++k) {
        result.weight += update_change(statistics, k) * std::sqrt(variance[k]);
    }
    if (!std::isfinite(result.loss) || !std::isfinite(result.weight)) {
        fail_nonfinite("the whole model", "the divergence of the plan",
                       std::isfinite(result.loss) ? result.weight : result.loss);
    }
    return result;
}

}  // namespace subbyte::plan
