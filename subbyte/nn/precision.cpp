// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/nn/precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"

namespace subbyte::nn {
namespace {

// One Recipe object that joins the recipes named for the three slots.
std::shared_ptr<const plan::Recipe> join(const std::array<std::string, 3>& names) {
    plan::Recipe recipe = plan::find_recipe(names[0]);
    if (names[1] == names[0] && names[2] == names[0]) {
        return std::make_shared<const plan::Recipe>(std::move(recipe));
    }
    for (const plan::Slot slot : {plan::Slot::kDgrad, plan::Slot::kWgrad}) {
        const auto i = static_cast<std::size_t>(slot);
        recipe.slots[i] = plan::find_recipe(names[i])[slot];
    }
    recipe.name = fmt::format("{}/{}/{}", names[0], names[1], names[2]);
    return std::make_shared<const plan::Recipe>(std::move(recipe));
}

}  // namespace

std::uint32_t Precision::add_layer(plan::LayerInfo info) {
    const auto ordinal = static_cast<std::uint32_t>(table_.size());
    if (!index_.emplace(info.name, ordinal).second) {
        throw Error(ErrorCode::kUsage, fmt::format("two layers are called '{}'", info.name));
    }
    recipes_.push_back(join({plan_.recipe(info.name, plan::Slot::kFprop),
                             plan_.recipe(info.name, plan::Slot::kDgrad),
                             plan_.recipe(info.name, plan::Slot::kWgrad)}));
    table_.push_back(std::move(info));
    return ordinal;
}

std::uint32_t Precision::layer_index(const std::string& name) const {
    const auto found = index_.find(name);
    if (found != index_.end()) return found->second;
    std::vector<std::string> names;
    for (const plan::LayerInfo& layer : table_) names.push_back(layer.name);
    throw Error(ErrorCode::kUsage, fmt::format("the model has no layer '{}'", name),
                nearest_hint(name, names));
}

void Precision::fix_layer(std::uint32_t layer, const std::array<std::string, 3>& recipes) {
    plan::LayerInfo& info = table_[layer];
    std::array<std::string, 3> names = recipes;
    for (const plan::Slot slot : plan::kSlots) {
        std::string& name = names[static_cast<std::size_t>(slot)];
        if (name.empty()) name = plan_.recipe(info.name, slot);
    }
    recipes_[layer] = join(names);
    info.pinned = recipes;
    info.candidate = std::ranges::count(recipes, std::string()) > 0;
    plan::apply_pins(plan_, table_);
}

void Precision::set_plan(const plan::Plan& plan) {
    for (const auto& [name, names] : plan.layers) layer_index(name);
    std::map<std::array<std::string, 3>, std::shared_ptr<const plan::Recipe>> joined;
    std::vector<std::shared_ptr<const plan::Recipe>> recipes(recipes_.size());
    for (std::size_t i = 0; i < table_.size(); ++i) {
        std::array<std::string, 3> names = table_[i].pinned;
        for (const plan::Slot slot : plan::kSlots) {
            std::string& name = names[static_cast<std::size_t>(slot)];
            if (name.empty()) name = plan.recipe(table_[i].name, slot);
        }
        auto& recipe = joined[names];
        if (!recipe) recipe = join(names);
        recipes[i] = recipe;
    }
    recipes_ = std::move(recipes);
    plan_ = plan;
    plan::apply_pins(plan_, table_);
}

}  // namespace subbyte::nn
