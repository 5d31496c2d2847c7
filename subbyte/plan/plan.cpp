// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "subbyte/plan/json_reader.h"

namespace subbyte::plan {
namespace {

// FLOP-weighted mean of value(recipe, slot) over the planned slots.
double weighted_mean(const Plan& plan, const LayerTable& table,
                     const std::function<double(const Recipe&, Slot)>& value) {
    const std::vector<double> shares = candidate_shares(table);
    double sum = 0;
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (shares[i] == 0) continue;
        for (const Slot slot : kSlots) {
            if (!table[i].plans(slot)) continue;
            const Recipe recipe = find_recipe(plan.recipe(table[i].name, slot));
            sum += shares[i] * value(recipe, slot) / table[i].planned_slots();
        }
    }
    return sum;
}

// A recipe name that exists.
std::string read_recipe(const JsonReader& reader) {
    const auto& [mistake, hint] = recipe_mistake(reader.text());
    if (!mistake.empty()) reader.fail(mistake, hint);
    return reader.text();
}

std::array<std::string, 3> read_slots(const JsonReader& reader) {
    if (reader.is_text()) {
        const std::string name = read_recipe(reader);
        return {name, name, name};
    }
    const std::vector<std::string> keys{"fprop", "dgrad", "wgrad"};  // as slot_name() says
    reader.allow(keys);
    std::array<std::string, 3> slots;
    for (std::size_t s = 0; s < keys.size(); ++s) slots[s] = read_recipe(reader[keys[s]]);
    return slots;
}

}  // namespace

const std::string& Plan::recipe(const std::string& layer, Slot slot) const {
    const auto entry = layers.find(layer);
    return entry == layers.end() ? fallback : entry->second[static_cast<std::size_t>(slot)];
}

void Plan::set(const std::string& layer, const std::string& recipe) {
    layers[layer] = {recipe, recipe, recipe};
}

std::string recipes_text(const Plan& plan, const std::string& layer) {
    const std::string &f = plan.recipe(layer, Slot::kFprop), &d = plan.recipe(layer, Slot::kDgrad),
                      &w = plan.recipe(layer, Slot::kWgrad);
    return f == d && f == w ? f : fmt::format("{}/{}/{}", f, d, w);
}

void apply_pins(Plan& plan, const LayerTable& table) {
    for (const LayerInfo& layer : table) {
        for (const Slot slot : kSlots) {
            const auto s = static_cast<std::size_t>(slot);
            if (!layer.candidate || layer.pinned[s].empty()) continue;
            const std::array<std::string, 3> unlisted{plan.fallback, plan.fallback, plan.fallback};
            plan.layers.try_emplace(layer.name, unlisted).first->second[s] = layer.pinned[s];
        }
    }
}

Plan uniform_plan(const LayerTable& table, const std::string& recipe) {
    find_recipe(recipe);
    Plan plan;
    if (recipe == "fp32") plan.fallback = recipe;
    for (const LayerInfo& layer : table) {
        if (layer.candidate) plan.set(layer.name, recipe);
    }
    apply_pins(plan, table);
    return plan;
}

double fp4_share(const Plan& plan, const LayerTable& table) {
    return weighted_mean(plan, table, [](const Recipe& recipe, Slot slot) {
        return recipe.is_fp4(slot) ? 1.0 : 0.0;
    });
}

double effective_bits(const Plan& plan, const LayerTable& table) {
    return weighted_mean(
        plan, table, [](const Recipe& recipe, Slot slot) { return recipe[slot].element_bits(); });
}

int changed_slots(const Plan& before, const Plan& after, const LayerTable& table) {
    int changed = 0;
    for (const LayerInfo& layer : table) {
        for (const Slot slot : kSlots) {
            if (before.recipe(layer.name, slot) != after.recipe(layer.name, slot)) ++changed;
        }
    }
    return changed;
}

nlohmann::json to_json(const Plan& plan) {
    nlohmann::json layers = nlohmann::json::object();
    for (const auto& [name, slots] : plan.layers) {
        if (slots[0] == slots[1] && slots[0] == slots[2]) {
            layers[name] = slots[0];
            continue;
        }
        for (const Slot slot : kSlots) {
            layers[name][std::string(slot_name(slot))] = slots[static_cast<std::size_t>(slot)];
        }
    }
    return {
        {"version", 1}, {"method", plan.method}, {"fallback", plan.fallback}, {"layers", layers}};
}

Plan plan_from_json(const nlohmann::json& json, const LayerTable* table) {
    const JsonReader reader(json, "plan");
    reader.allow({"version", "method", "fallback", "layers"});
    reader["version"].integer(1, 1);
    Plan plan;
    plan.method = reader["method"].text();
    plan.fallback = read_recipe(reader["fallback"]);
    const JsonReader layers = reader["layers"];
    if (table != nullptr) layers.allow(layer_names(*table));
    for (const std::string& name : layers.keys()) plan.layers[name] = read_slots(layers[name]);
    return plan;
}

}  // namespace subbyte::plan
