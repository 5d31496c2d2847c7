// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/sensitivity.h"

#include <algorithm>
#include <numeric>

namespace subbyte::plan {
namespace {

double relative(double error, double norm) { return norm > 0 ? error / norm : 0.0; }

// Shares and ranks of one recipe over all layers.
void compare_layers(std::vector<LayerSensitivity>& layers, std::size_t recipe) {
    double loss = 0, weight = 0;
    std::vector<std::size_t> order(layers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (const LayerSensitivity& layer : layers) {
        loss += layer.recipes[recipe].loss;
        weight += layer.recipes[recipe].weight;
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return layers[a].recipes[recipe].damage > layers[b].recipes[recipe].damage;
    });
    for (std::size_t i = 0; i < order.size(); ++i) {
        RecipeSensitivity& entry = layers[order[i]].recipes[recipe];
        entry.rank = static_cast<int>(i) + 1;
        entry.loss_share = relative(entry.loss, loss);
        entry.weight_share = relative(entry.weight, weight);
    }
}

}  // namespace

std::vector<LayerSensitivity> layer_sensitivities(const ModelStatistics& statistics,
                                                  const PlannerOptions& options) {
    const auto divergences = estimate_divergence(statistics, options.recipes, options.estimator);
    const std::vector<double> shares = candidate_shares(statistics.table);
    std::vector<LayerSensitivity> layers;
    for (std::size_t l = 0; l < statistics.layers.size(); ++l) {
        const LayerInfo& info = statistics.table[l];
        const LayerStatistics& s = statistics.layers[l];
        if (!info.candidate) continue;
        LayerSensitivity layer{info.name, info.type, info.block, shares[l], {}};
        for (std::size_t r = 0; r < options.recipes.size(); ++r) {
            const Divergence& d = divergences[l][r];
            const auto e = quantisation_errors(s, info.name, options.recipes[r]);
            layer.recipes.push_back(
                {.recipe = options.recipes[r],
                 .ex = relative(e.ex, s.x),
                 .ew = relative(e.ew, s.w),
                 .eg = relative(e.eg, s.g),
                 .loss = d.loss,
                 .weight = d.weight,
                 .damage = options.loss_weight * d.loss + options.weight_weight * d.weight});
        }
        layers.push_back(std::move(layer));
    }
    for (std::size_t r = 0; r < options.recipes.size(); ++r) compare_layers(layers, r);
    return layers;
}

std::vector<std::string> measured_recipes(const ModelStatistics& statistics) {
    std::vector<std::string> names;
    bool first = true;
    for (std::size_t l = 0; l < statistics.layers.size(); ++l) {
        const LayerStatistics& layer = statistics.layers[l];
        if (!statistics.table[l].candidate || is_unmeasured(layer)) continue;
        if (first) {
            for (const auto& [name, errors] : layer.errors) names.push_back(name);
        } else {
            std::erase_if(names, [&](const auto& name) { return !layer.errors.contains(name); });
        }
        first = false;
    }
    return names;
}

}  // namespace subbyte::plan
