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

// Result errors of a layer whose slots have different recipes.
std::array<double, 3> mixed_errors(const LayerStatistics& layer, const std::string& name,
                                   const std::array<std::string, 3>& recipes) {
    std::array<double, 3> errors{};
    for (std::size_t slot = 0; slot < 3; ++slot) {
        errors[slot] = result_errors(layer, quantisation_errors(layer, name, recipes[slot]))[slot];
    }
    return errors;
}

double sum(const std::array<double, 3>& parts) { return parts[0] + parts[1] + parts[2]; }

void check_finite(const Divergence& d, const std::string& layer, const std::string& what) {
    if (!std::isfinite(d.loss)) fail_nonfinite(layer, what, d.loss);
    if (!std::isfinite(d.weight)) fail_nonfinite(layer, what, d.weight);
}

// Of each slot as if the other two were absent.
std::array<Divergence, 3> slot_divergences(const ModelStatistics& statistics, std::size_t l,
                                           const std::string& recipe, LossEstimator estimator) {
    const LayerStatistics& layer = statistics.layers[l];
    const std::string& name = statistics.table[l].name;
    const std::array<double, 3> errors =
        result_errors(layer, quantisation_errors(layer, name, recipe));
    std::array<Divergence, 3> result{};
    result[0].loss =
        ratio(loss_change(layer, name, recipe, estimator).size(), std::abs(statistics.loss));
    for (std::size_t k = 0; k < statistics.layers.size(); ++k) {
        const double unit = update_change(statistics, k);
        const std::array<double, 3> variance = gradient_errors(layer, l, k, errors);
        for (std::size_t slot = 0; slot < 3; ++slot) {
            result[slot].weight += unit * std::sqrt(variance[slot]);
        }
    }
    for (const Divergence& d : result) {
        check_finite(d, name, fmt::format("the divergence of '{}'", recipe));
    }
    return result;
}

}  // namespace

double update_change(const ModelStatistics& statistics, std::size_t k) {
    const LayerStatistics& s = statistics.layers[k];
    if (!(s.w > 0)) return 0;
    return ratio(s.jacobian, std::sqrt(s.update_numel)) / s.w /
           static_cast<double>(statistics.layers.size());
}

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

Divergence layer_divergence(const ModelStatistics& statistics, std::size_t l,
                            const std::array<std::string, 3>& recipes, LossEstimator estimator) {
    const LayerStatistics& layer = statistics.layers[l];
    const std::string& name = statistics.table[l].name;
    Divergence result{.loss = ratio(loss_change(layer, name, recipes[0], estimator).size(),
                                    std::abs(statistics.loss))};
    const std::array<double, 3> errors = mixed_errors(layer, name, recipes);
    for (std::size_t k = 0; k < statistics.layers.size(); ++k) {
        result.weight += update_change(statistics, k) *
                         std::sqrt(sum(gradient_errors(statistics.layers[l], l, k, errors)));
    }
    check_finite(result, name, fmt::format("the divergence of '{}'", fmt::join(recipes, "', '")));
    return result;
}

std::vector<std::vector<Divergence>> estimate_divergence(const ModelStatistics& statistics,
                                                         const std::vector<std::string>& recipes,
                                                         LossEstimator estimator) {
    check_statistics(statistics);
    std::vector<std::vector<Divergence>> result(statistics.layers.size(),
                                                std::vector<Divergence>(recipes.size()));
    for (std::size_t l = 0; l < result.size(); ++l) {
        if (!statistics.table[l].candidate) continue;
        for (std::size_t r = 0; r < recipes.size(); ++r) {
            result[l][r] =
                layer_divergence(statistics, l, statistics.table[l].with(recipes[r]), estimator);
        }
    }
    return result;
}

std::vector<std::vector<std::array<Divergence, 3>>> estimate_slot_divergence(
    const ModelStatistics& statistics, const std::vector<std::string>& recipes,
    LossEstimator estimator) {
    check_statistics(statistics);
    std::vector<std::vector<std::array<Divergence, 3>>> result(
        statistics.layers.size(), std::vector<std::array<Divergence, 3>>(recipes.size()));
    for (std::size_t l = 0; l < result.size(); ++l) {
        if (!statistics.table[l].candidate) continue;
        for (std::size_t r = 0; r < recipes.size(); ++r) {
            result[l][r] = slot_divergences(statistics, l, recipes[r], estimator);
        }
    }
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
        const std::array<std::string, 3> recipes{plan.recipe(name, Slot::kFprop),
                                                 plan.recipe(name, Slot::kDgrad),
                                                 plan.recipe(name, Slot::kWgrad)};
        const LossChange change = loss_change(layer, name, recipes[0], estimator);
        loss.shift += change.shift;
        loss.spread = std::hypot(loss.spread, change.spread);
        const std::array<double, 3> errors = mixed_errors(layer, name, recipes);
        for (std::size_t k = 0; k < layers; ++k) {
            variance[k] += sum(gradient_errors(layer, l, k, errors));
        }
    }
    Divergence result{.loss = ratio(loss.size(), std::abs(statistics.loss))};
    for (std::size_t k = 0; k < layers; ++k) {
        result.weight += update_change(statistics, k) * std::sqrt(variance[k]);
    }
    check_finite(result, "the whole model", "the divergence of the plan");
    return result;
}

}  // namespace subbyte::plan
