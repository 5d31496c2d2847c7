// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/estimator.h"

#include <fmt/format.h>

#include <cmath>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"
#include "subbyte/plan/divergence.h"

namespace subbyte::plan {
namespace {

struct Entry {
    LossEstimator estimator;
    const char* name;
    Needs needs;
};

constexpr Entry kEstimators[] = {
    {LossEstimator::kNormOnly, "norm-only", {}},
    {LossEstimator::kFirstOrder, "first-order", {.first_order = true}},
    {LossEstimator::kSecondOrder, "second-order", {.curvature = true}},
    {LossEstimator::kGradientOutput, "gradient-output", {.outputs = true}},
    {LossEstimator::kFisher, "fisher", {.outputs = true}},
    {LossEstimator::kHessianTrace, "hessian-trace", {.outer = true}},
    {LossEstimator::kTaylor, "taylor", {.first_order = true, .outputs = true}},
};

const Entry& entry_of(LossEstimator estimator) {
    for (const Entry& entry : kEstimators) {
        if (entry.estimator == estimator) return entry;
    }
    throw Error(ErrorCode::kInternal, "an estimator without a name");
}

double squared(double value) { return value * value; }

double quotient(double numerator, double denominator) {
    return numerator == 0 ? 0.0 : numerator / denominator;
}

template <typename T>
const T& measured(const std::optional<T>& value, LossEstimator estimator, const std::string& layer,
                  const std::string& recipe, const char* what) {
    if (value) return *value;
    throw Error(ErrorCode::kUsage,
                fmt::format("statistics of '{}' hold no {} for recipe '{}'", layer, what, recipe),
                fmt::format("use the norm-only estimator, or measure again for {}",
                            estimator_name(estimator)));
}

double norm_only(const LayerStatistics& s, const LayerStatistics::Errors& e) {
    return std::sqrt(quotient(squared(s.dx * e.ex), s.t * s.k) +
                     quotient(squared(s.dw * e.ew), s.n * s.k));
}

}  // namespace

std::string_view estimator_name(LossEstimator estimator) { return entry_of(estimator).name; }

std::vector<std::string> estimator_names() {
    std::vector<std::string> names;
    for (const Entry& entry : kEstimators) names.emplace_back(entry.name);
    return names;
}

std::optional<LossEstimator> find_estimator(std::string_view name) {
    for (const Entry& entry : kEstimators) {
        if (entry.name == name) return entry.estimator;
    }
    return std::nullopt;
}

LossEstimator estimator_from_name(std::string_view name) {
    if (const auto estimator = find_estimator(name)) return *estimator;
    throw Error(ErrorCode::kUsage, fmt::format("unknown estimator '{}'", name),
                nearest_hint(name, estimator_names()));
}

Needs needs_of(LossEstimator estimator) { return entry_of(estimator).needs; }

double LossChange::size() const { return std::hypot(shift, spread); }

LossChange loss_change(const LayerStatistics& s, const std::string& layer_name,
                       const std::string& recipe, LossEstimator estimator) {
    const LayerStatistics::Errors e = quantisation_errors(s, layer_name, recipe);
    // The baseline, or nothing was measured.
    if (e.ex == 0 && e.ew == 0 && !e.first_order && !e.output) return {};
    const auto first_order = [&] {
        return measured(e.first_order, estimator, layer_name, recipe, "first-order term");
    };
    const auto output = [&]() -> const LayerStatistics::Errors::OutputError& {
        return measured(e.output, estimator, layer_name, recipe, "output errors");
    };
    switch (estimator) {
        case LossEstimator::kNormOnly: return {.spread = norm_only(s, e)};
        case LossEstimator::kFirstOrder: return {.shift = first_order()};
        case LossEstimator::kSecondOrder: {
            const double c = measured(s.curvature, estimator, layer_name, recipe, "curvature");
            const double variance = quotient(squared(e.ex * s.w) + squared(s.x * e.ew), s.k);
            return {.shift = 0.5 * c * variance, .spread = norm_only(s, e)};
        }
        case LossEstimator::kGradientOutput: return {.shift = 0.5 * s.t * output().elements};
        case LossEstimator::kFisher: return {.shift = 0.5 * s.t * output().tokens};
        case LossEstimator::kHessianTrace: {
            const double outer = measured(s.outer, estimator, layer_name, recipe, "Fisher trace");
            return {.shift = 0.5 * s.t *
                             (quotient(outer * squared(e.ew), s.n * s.k) +
                              quotient(squared(s.dx * e.ex), s.t * s.k))};
        }
        case LossEstimator::kTaylor: return {.shift = first_order() + 0.5 * s.t * output().tokens};
    }
    throw Error(ErrorCode::kInternal, "an estimator without a formula");
}

LossChange loss_change_between(const LayerStatistics& s, const std::string& layer_name,
                               const std::string& from, const std::string& to) {
    if (from == to) return {};
    const auto part = [&](const std::string& recipe, LossEstimator estimator) {
        return loss_change(s, layer_name, recipe, estimator);
    };
    return {.shift = part(to, LossEstimator::kFirstOrder).shift -
                     part(from, LossEstimator::kFirstOrder).shift +
                     part(to, LossEstimator::kFisher).shift +
                     part(from, LossEstimator::kFisher).shift,
            .spread = std::hypot(part(to, LossEstimator::kNormOnly).spread,
                                 part(from, LossEstimator::kNormOnly).spread)};
}

double local_error(const LayerStatistics& s, const LayerStatistics::Errors& e, Slot slot,
                   bool relative, bool own_operands) {
    const bool x_first = slot == Slot::kFprop, x_second = slot == Slot::kWgrad;
    const std::array<double, 2> one{x_first ? e.ex : e.eg, x_second ? e.ex : e.ew};
    const std::array<double, 2> errors = own_operands ? e.of(slot) : one;
    if (!relative) return 0.5 * (errors[0] + errors[1]);
    return 0.5 *
           (quotient(errors[0], x_first ? s.x : s.g) + quotient(errors[1], x_second ? s.x : s.w));
}

std::vector<std::vector<double>> local_errors(const ModelStatistics& statistics,
                                              const std::vector<std::string>& recipes,
                                              bool relative) {
    std::vector<std::vector<double>> result(statistics.layers.size(),
                                            std::vector<double>(recipes.size()));
    for (std::size_t l = 0; l < result.size(); ++l) {
        if (!statistics.table[l].candidate) continue;
        const LayerStatistics& s = statistics.layers[l];
        for (std::size_t r = 0; r < recipes.size(); ++r) {
            const auto e = quantisation_errors(s, statistics.table[l].name, recipes[r]);
            for (const Slot slot : kSlots) result[l][r] += local_error(s, e, slot, relative, false);
        }
    }
    return result;
}

}  // namespace subbyte::plan
