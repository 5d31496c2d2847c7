// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/plan_damage.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

namespace subbyte::plan {
namespace {

// The recipes that candidates of the plan use, each once.
std::vector<std::string> used_recipes(const Plan& plan, const LayerTable& table) {
    std::vector<std::string> names;
    for (const LayerInfo& layer : table) {
        for (const Slot slot : kSlots) {
            if (!layer.plans(slot)) continue;
            const std::string& name = plan.recipe(layer.name, slot);
            if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        }
    }
    return names;
}

// One recipe for all three GEMMs, chosen by the plan.
bool is_uniform(const Plan& plan, const LayerInfo& layer) {
    const std::string& fprop = plan.recipe(layer.name, Slot::kFprop);
    return layer.planned_slots() == 3 && fprop == plan.recipe(layer.name, Slot::kDgrad) &&
           fprop == plan.recipe(layer.name, Slot::kWgrad);
}

}  // namespace

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

    const std::vector<std::string> recipes = used_recipes(plan, table);
    const auto whole = estimate_divergence(statistics, recipes, options.estimator);
    const bool mixed = std::any_of(table.begin(), table.end(), [&](const LayerInfo& layer) {
        return layer.candidate && !is_uniform(plan, layer);
    });
    const auto parts = mixed ? estimate_slot_divergence(statistics, recipes, options.estimator)
                             : std::vector<std::vector<std::array<Divergence, 3>>>{};
    std::unordered_map<std::string, std::size_t> measured;
    for (std::size_t i = 0; i < statistics.table.size(); ++i)
        measured[statistics.table[i].name] = i;
    for (std::size_t i = 0; i < table.size(); ++i) {
        const auto found = measured.find(table[i].name);
        if (!table[i].candidate || found == measured.end()) continue;
        const auto index = [&](Slot slot) {
            const auto at =
                std::find(recipes.begin(), recipes.end(), plan.recipe(table[i].name, slot));
            return static_cast<std::size_t>(at - recipes.begin());
        };
        Divergence d;
        if (is_uniform(plan, table[i])) {
            d = whole[found->second][index(Slot::kFprop)];
        } else {
            std::array<Divergence, 3> slots;
            for (const Slot slot : kSlots) {
                if (!table[i].plans(slot)) continue;
                const auto s = static_cast<std::size_t>(slot);
                slots[s] = parts[found->second][index(slot)][s];
            }
            d = joined(table[i], slots);
        }
        const double q = options.loss_weight * d.loss + options.weight_weight * d.weight;
        result.layers[i] = q;
        result.loss += d.loss;
        result.weight += d.weight;
        result.total += q;
        result.objective += options.squared ? q * q : q;
    }
    return result;
}

}  // namespace subbyte::plan
