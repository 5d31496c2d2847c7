// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/divergence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "subbyte/core/error.h"
#include "subbyte/plan/recipe.h"

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

void check_layer(const LayerStatistics& layer, const std::string& name, std::size_t layers) {
    const std::pair<const char*, double> values[] = {{"|X|", layer.x},
                                                     {"|W|", layer.w},
                                                     {"|Y|", layer.y},
                                                     {"|G|", layer.g},
                                                     {"|dX|", layer.dx},
                                                     {"|dW|", layer.dw},
                                                     {"T", layer.t},
                                                     {"K", layer.k},
                                                     {"N", layer.n},
                                                     {"|J|", layer.jacobian},
                                                     {"numel", layer.update_numel}};
    for (const auto& [what, value] : values) {
        if (!std::isfinite(value)) fail_nonfinite(name, what, value);
    }
    for (const std::vector<double>* gains : {&layer.backward, &layer.forward}) {
        if (!gains->empty() && gains->size() != layers) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("statistics of '{}': {} noise gains for {} layers", name,
                                    gains->size(), layers),
                        "one gain per layer, or none when they were not measured");
        }
        for (const double gain : *gains) {
            if (!std::isfinite(gain)) fail_nonfinite(name, "a noise gain", gain);
        }
    }
}

void check(const ModelStatistics& statistics) {
    if (statistics.table.size() != statistics.layers.size()) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("statistics of step {}: {} layers in the table, {} measured",
                                statistics.step, statistics.table.size(), statistics.layers.size()),
                    "the layers of the statistics are parallel to their table");
    }
    if (!std::isfinite(statistics.loss)) {
        throw Error(
            ErrorCode::kDiverged,
            fmt::format("statistics of step {}: the loss is {}", statistics.step, statistics.loss),
            kNotFinite);
    }
    for (std::size_t l = 0; l < statistics.layers.size(); ++l) {
        check_layer(statistics.layers[l], statistics.table[l].name, statistics.layers.size());
    }
}

// Variances of the errors that a recipe makes in one layer.
struct LayerErrors {
    double direct, backward, forward;  // |a|^2, |b|^2, |E_Y|^2
};

LayerErrors layer_errors(const LayerStatistics& s, const LayerStatistics::Errors& e) {
    return {
        .direct = ratio(square(e.eg * s.x) + square(s.g * e.ex), s.t),
        .backward = ratio(square(e.eg * s.w) + square(s.g * e.ew), s.n),
        .forward = ratio(square(e.ex * s.w) + square(s.x * e.ew), s.k),
    };
}

double loss_increase(const LayerStatistics& s, const LayerStatistics::Errors& e,
                     LossEstimator estimator) {
    if (estimator == LossEstimator::kFirstOrder) return std::abs(e.first_order);
    return std::sqrt(ratio(square(s.dx * e.ex), s.t * s.k) + ratio(square(s.dw * e.ew), s.n * s.k));
}

// Mean over all layers k of the relative change of W_k after one optimizer step.
double weight_change(const ModelStatistics& statistics, std::size_t l, const LayerErrors& errors) {
    const LayerStatistics& source = statistics.layers[l];
    double sum = 0;
    for (std::size_t k = 0; k < statistics.layers.size(); ++k) {
        const LayerStatistics& reached = statistics.layers[k];
        double variance = k == l ? errors.direct : 0.0;
        if (k < l && !source.backward.empty())
            variance += square(source.backward[k]) * errors.backward;
        if (!source.forward.empty()) variance += square(source.forward[k]) * errors.forward;
        const double change =
            ratio(reached.jacobian * std::sqrt(variance), std::sqrt(reached.update_numel));
        // A weight of zeros has no relative change; it is left out like any layer that has no
        // statistics.
        if (reached.w > 0) sum += change / reached.w;
    }
    return sum / static_cast<double>(statistics.layers.size());
}

}  // namespace

bool is_unmeasured(const LayerStatistics& layer) {
    return layer.x == 0 && layer.y == 0 && layer.g == 0 && layer.dw == 0;
}

LayerStatistics::Errors quantisation_errors(const LayerStatistics& layer,
                                            const std::string& layer_name,
                                            const std::string& recipe) {
    if (find_recipe(recipe).is_high_precision()) return {.has_first_order = true};
    const auto entry = layer.errors.find(recipe);
    if (entry == layer.errors.end()) {
        if (is_unmeasured(layer)) return {.has_first_order = true};
        std::vector<std::string> measured;
        for (const auto& [name, errors] : layer.errors) measured.push_back(name);
        throw Error(
            ErrorCode::kUsage,
            fmt::format("statistics of '{}' hold no errors for recipe '{}'", layer_name, recipe),
            fmt::format("measured: {}; measure again with this recipe among the options",
                        measured.empty() ? "none" : fmt::format("{}", fmt::join(measured, ", "))));
    }
    const LayerStatistics::Errors& errors = entry->second;
    for (const double value : {errors.ex, errors.ew, errors.eg, errors.first_order}) {
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
    const std::size_t layers = statistics.layers.size();
    check(statistics);
    std::vector<std::vector<Divergence>> result(layers, std::vector<Divergence>(recipes.size()));
    for (std::size_t l = 0; l < layers; ++l) {
        if (!statistics.table[l].candidate) continue;
        const LayerStatistics& layer = statistics.layers[l];
        const std::string& name = statistics.table[l].name;
        for (std::size_t r = 0; r < recipes.size(); ++r) {
            const std::string& recipe = recipes[r];
            const LayerStatistics::Errors errors = quantisation_errors(layer, name, recipe);
            if (estimator == LossEstimator::kFirstOrder && !errors.has_first_order) {
                throw Error(
                    ErrorCode::kUsage,
                    fmt::format("statistics of '{}' hold no first-order term for recipe '{}'", name,
                                recipe),
                    "use the norm-only estimator, or measure again with first-order terms");
            }
            const Divergence d{
                .loss = ratio(loss_increase(layer, errors, estimator), std::abs(statistics.loss)),
                .weight = weight_change(statistics, l, layer_errors(layer, errors))};
            if (!std::isfinite(d.loss) || !std::isfinite(d.weight)) {
                fail_nonfinite(name, fmt::format("the divergence of '{}'", recipe),
                               std::isfinite(d.loss) ? d.weight : d.loss);
            }
            result[l][r] = d;
        }
    }
    return result;
}

}  // namespace subbyte::plan
