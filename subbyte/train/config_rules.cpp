// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/config_rules.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"
#include "subbyte/plan/slot.h"

namespace subbyte::train {

bool glob_match(const std::string& pattern, const std::string& name) {
    return fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

std::string unmatched_hint(const std::string& pattern, const plan::LayerTable& table) {
    std::vector<std::string> names;
    for (const plan::LayerInfo& layer : table) names.push_back(layer.name);
    const std::string near = nearest(pattern, names);
    if (!near.empty()) return fmt::format("did you mean '{}'?", near);
    if (names.empty()) return "the model has no layers";
    return fmt::format("layers are named like '{}'; `*` stands for any text", names.front());
}

std::map<std::string, std::array<std::string, 3>> resolve_rules(
    const std::vector<Config::Rule>& rules, const plan::LayerTable& table) {
    std::map<std::string, std::array<std::string, 3>> result;
    for (const Config::Rule& rule : rules) {
        bool matched = false;
        for (const plan::LayerInfo& layer : table) {
            if (!glob_match(rule.match, layer.name)) continue;
            matched = true;
            for (const plan::Slot slot : plan::kSlots) {
                if (!rule.slot.empty() && rule.slot != plan::slot_name(slot)) continue;
                result[layer.name][static_cast<std::size_t>(slot)] = rule.recipe;
            }
        }
        if (!matched) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("precision.rule: \"{}\" matches no layer", rule.match),
                        unmatched_hint(rule.match, table));
        }
    }
    return result;
}

std::map<std::string, std::array<std::string, 3>> fixed_layers(const Config::Precision& precision,
                                                               const plan::LayerTable& table) {
    const std::string base = precision.recipe == "snip" ? "bf16" : precision.recipe;
    std::map<std::string, std::array<std::string, 3>> fixed = resolve_rules(precision.rules, table);
    for (auto& [name, recipes] : fixed) {
        for (std::string& recipe : recipes) {
            if (recipe.empty()) recipe = name == "lm_head" ? precision.head : base;
        }
    }
    for (const plan::LayerInfo& layer : table) {
        if (layer.name != "lm_head") continue;
        fixed.try_emplace(
            layer.name, std::array<std::string, 3>{precision.head, precision.head, precision.head});
    }
    return fixed;
}

}  // namespace subbyte::train
