// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/plan_damage.h"

#include <cmath>
#include <numeric>
#include <unordered_map>

#include "subbyte/plan/statistics_check.h"

namespace subbyte::plan {

double PlanDamage::efficiency() const {
    return std::accumulate(reached.begin(), reached.end(), 0.0);
}

PlanDamage plan_damage(const Plan& plan, const LayerTable& table, const ModelStatistics& statistics,
                       const PlannerOptions& options) {
    PlanDamage result;
    result.layers.resize(table.size());
    result.reached.resize(static_cast<std::size_t>(stage_count(table)));
    const EfficiencyModel efficiency(table, options.efficiency, options.profile.get());
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (!table[i].candidate) continue;
        for (const Slot slot : kSlots) {
            if (!table[i].plans(slot)) continue;
            const Recipe recipe = find_recipe(plan.recipe(table[i].name, slot));
            result.reached[static_cast<std::size_t>(table[i].stage)] +=
                efficiency.saved(i, slot, recipe);
        }
    }

    check_statistics(statistics);
    std::unordered_map<std::string, std::size_t> measured;
    for (std::size_t i = 0; i < statistics.table.size(); ++i)
        measured[statistics.table[i].name] = i;
    for (std::size_t i = 0; i < table.size(); ++i) {
        const auto found = measured.find(table[i].name);
        if (!table[i].candidate || found == measured.end()) continue;
        std::array<std::string, 3> recipes;
        for (const Slot slot : kSlots) {
            recipes[static_cast<std::size_t>(slot)] = plan.recipe(table[i].name, slot);
        }
        const Divergence d =
            layer_divergence(statistics, found->second, recipes, options.estimator);
        const double q = options.loss_weight * d.loss + options.weight_weight * d.weight;
        result.layers[i] = q;
        result.loss += d.loss;
        result.weight += d.weight;
        result.total += q;
        result.objective += options.squared ? q * q : q;
    }
    if (options.squared) result.objective = std::sqrt(result.objective);
    return result;
}

}  // namespace subbyte::plan
