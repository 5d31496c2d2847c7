// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "subbyte/core/error.h"
#include "subbyte/plan/statistics.h"

namespace subbyte::plan {
namespace {

using Errors = LayerStatistics::Errors;

// Mean of `value(step)` over the steps that have one (a pointer that is not null).
template <typename Item, typename Value>
std::optional<double> mean_of(const std::vector<const Item*>& items, Value value) {
    double sum = 0;
    int count = 0;
    for (const Item* item : items) {
        if (const std::optional<double> v = value(*item)) {
            sum += *v;
            ++count;
        }
    }
    if (count == 0) return std::nullopt;
    return sum / count;
}

template <typename Item, typename Value>
std::optional<double> root_mean_square(const std::vector<const Item*>& items, Value value) {
    const auto mean = mean_of(items, [&](const Item& item) -> std::optional<double> {
        const std::optional<double> v = value(item);
        return v ? std::optional(*v * *v) : std::nullopt;
    });
    return mean ? std::optional(std::sqrt(*mean)) : std::nullopt;
}

Errors average_errors(const std::vector<const Errors*>& steps) {
    Errors result = *steps.front();
    for (double Errors::*member : {&Errors::ex, &Errors::ew, &Errors::eg}) {
        result.*member =
            *root_mean_square(steps, [&](const Errors& e) { return std::optional(e.*member); });
    }
    for (auto member : {&Errors::ew_dgrad, &Errors::eg_wgrad, &Errors::ex_wgrad}) {
        result.*member = root_mean_square(steps, [&](const Errors& e) { return e.*member; });
    }
    result.first_order = mean_of(steps, [](const Errors& e) { return e.first_order; });
    if (!result.output) return result;
    using Output = Errors::OutputError;
    for (double Output::*member : {&Output::squared, &Output::elements, &Output::tokens}) {
        (*result.output).*member = *mean_of(steps, [&](const Errors& e) {
            return e.output ? std::optional((*e.output).*member) : std::nullopt;
        });
    }
    return result;
}

std::vector<double> average_gains(const std::vector<const LayerStatistics*>& steps,
                                  std::vector<double> LayerStatistics::*gains) {
    std::vector<const std::vector<double>*> measured;
    for (const LayerStatistics* step : steps) {
        if (!(step->*gains).empty()) measured.push_back(&(step->*gains));
    }
    std::vector<double> result;
    if (measured.empty()) return result;
    for (std::size_t k = 0; k < measured.front()->size(); ++k) {
        result.push_back(*root_mean_square(
            measured, [&](const std::vector<double>& v) { return std::optional(v.at(k)); }));
    }
    return result;
}

LayerStatistics average_layer(const std::vector<const LayerStatistics*>& steps) {
    using S = LayerStatistics;
    S result = *steps.front();
    for (double S::*member : {&S::x, &S::w, &S::y, &S::g, &S::dx, &S::dw, &S::jacobian}) {
        result.*member =
            *root_mean_square(steps, [&](const S& s) { return std::optional(s.*member); });
    }
    result.t = *mean_of(steps, [](const S& s) { return std::optional(s.t); });
    result.outer = mean_of(steps, [](const S& s) { return s.outer; });
    result.curvature = mean_of(steps, [](const S& s) { return s.curvature; });
    result.backward = average_gains(steps, &S::backward);
    result.forward = average_gains(steps, &S::forward);
    for (auto& [recipe, errors] : result.errors) {
        std::vector<const Errors*> entries;
        for (const S* step : steps) {
            if (const auto entry = step->errors.find(recipe); entry != step->errors.end()) {
                entries.push_back(&entry->second);
            }
        }
        errors = average_errors(entries);
    }
    return result;
}

}  // namespace

ModelStatistics average(const std::vector<ModelStatistics>& steps) {
    if (steps.empty()) throw Error(ErrorCode::kUsage, "the average of no statistics");
    ModelStatistics result = steps.front();
    result.loss = 0;
    for (const ModelStatistics& step : steps) {
        if (layer_names(step.table) != layer_names(result.table)) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("statistics of steps {} and {} are of different models",
                                    result.step, step.step));
        }
        result.loss += step.loss / static_cast<double>(steps.size());
    }
    for (std::size_t l = 0; l < result.layers.size(); ++l) {
        std::vector<const LayerStatistics*> layers;
        for (const ModelStatistics& step : steps) layers.push_back(&step.layers.at(l));
        result.layers[l] = average_layer(layers);
    }
    return result;
}

}  // namespace subbyte::plan
