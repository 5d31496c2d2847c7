// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/config_rules.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

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
    std::map<std::string, std::array<std::string, 3>> fixed = resolve_rules(precision.rules, table);
    for (const plan::LayerInfo& layer : table) {
        if (layer.name != "lm_head") continue;
        for (std::string& recipe : fixed[layer.name]) {
            if (recipe.empty() && precision.head != "snip") recipe = precision.head;
        }
    }
    return fixed;
}

std::vector<std::string> rule_lines(const Config::Precision& precision,
                                    const plan::LayerTable& table) {
    const auto fixed = fixed_layers(precision, table);
    // What is said of a layer, and of which blocks; in the order of the table.
    std::vector<std::pair<std::string, std::string>> keys;
    std::vector<std::vector<int>> places;
    for (const plan::LayerInfo& layer : table) {
        const auto found = fixed.find(layer.name);
        if (found == fixed.end()) continue;
        std::array<std::string, 3> shown = found->second;
        for (std::string& recipe : shown) {
            if (recipe.empty()) recipe = "as planned";
        }
        const auto& [fprop, dgrad, wgrad] = shown;
        const std::string recipes =
            fprop == dgrad && fprop == wgrad
                ? fprop
                : fmt::format("fprop {}, dgrad {}, wgrad {}", fprop, dgrad, wgrad);
        const std::pair key(layer.block < 0 ? layer.name : layer.type, recipes);
        auto at = std::find(keys.begin(), keys.end(), key);
        if (at == keys.end()) at = keys.insert(at, key);
        places.resize(keys.size());
        places[static_cast<std::size_t>(at - keys.begin())].push_back(layer.block);
    }
    std::vector<std::string> lines;
    for (std::size_t k = 0; k < keys.size(); ++k) {
        const std::vector<int>& blocks = places[k];
        std::string where;
        for (std::size_t begin = 0; begin < blocks.size() && blocks[begin] >= 0;) {
            std::size_t end = begin + 1;
            while (end < blocks.size() && blocks[end] == blocks[end - 1] + 1) ++end;
            where += where.empty() ? "" : ", ";
            where += end == begin + 1 ? fmt::to_string(blocks[begin])
                                      : fmt::format("{}-{}", blocks[begin], blocks[end - 1]);
            begin = end;
        }
        lines.push_back(fmt::format(
            "{}{}: {}", keys[k].first,
            where.empty() ? "" : (blocks.size() == 1 ? " of block " : " of blocks ") + where,
            keys[k].second));
    }
    return lines;
}

}  // namespace subbyte::train
