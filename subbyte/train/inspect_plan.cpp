// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/inspect_plan.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/io/json_file.h"
#include "subbyte/io/jsonl.h"
#include "subbyte/train/config_rules.h"

namespace subbyte::train {
namespace {

using Json = nlohmann::ordered_json;

// Sums per layer type, in order of appearance.
struct TypeSums {
    std::string type;
    int layers = 0;
    double work = 0;
    std::map<std::string, int> planned;
    std::map<std::string, std::array<double, 2>> shares;  // of DL and DW, per recipe
};

TypeSums& sums_of(std::vector<TypeSums>& types, const std::string& type) {
    for (TypeSums& sums : types) {
        if (sums.type == type) return sums;
    }
    types.push_back({.type = type, .planned = {}, .shares = {}});
    return types.back();
}

// A number that is none: what cannot be reached, or was not solved for.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json options_json(const plan::ExplainedUnit& unit) {
    Json options = Json::array();
    for (const plan::ExplainedOption& option : unit.options) {
        Json entry{{"recipe", option.recipe}, {"loss", option.loss},
                   {"weight", option.weight}, {"cost", option.cost},
                   {"saved", option.saved},   {"flip", number(option.flip)}};
        if (std::isinf(option.flip)) entry["flip"] = "out of reach";
        options.push_back(std::move(entry));
    }
    return options;
}

void demand_match(const Json& list, const std::string& glob) {
    if (!list.empty() || glob.empty()) return;
    throw Error(ErrorCode::kUsage, fmt::format("'{}' matches no layer that is planned", glob),
                "`*` stands for any text, e.g. \"*.down_proj\"");
}

}  // namespace

plan::ModelStatistics read_statistics(const std::filesystem::path& file) {
    if (file.extension() != ".jsonl") return plan::statistics_from_json(io::read_json(file));
    const io::JsonlLog log = io::read_jsonl(file);
    for (auto record = log.records.rbegin(); record != log.records.rend(); ++record) {
        if (!record->superseded && record->value.contains("statistics")) {
            return plan::statistics_from_json(record->value["statistics"]);
        }
    }
    throw Error(ErrorCode::kData, fmt::format("{}: no statistics in it", file.string()),
                "a run writes them to stats.jsonl with log.stats = true");
}

bool unit_matches(const std::string& glob, const std::string& unit) {
    if (glob.empty()) return true;
    for (std::size_t at = 0; at <= unit.size();) {
        const std::size_t end = std::min(unit.find(" + ", at), unit.size());
        std::string part = unit.substr(at, end - at);
        if (glob_match(glob, part)) return true;
        for (const plan::Slot slot : plan::kSlots) {
            const std::string suffix = fmt::format(".{}", plan::slot_name(slot));
            if (part.ends_with(suffix) &&
                glob_match(glob, part.substr(0, part.size() - suffix.size()))) {
                return true;
            }
        }
        at = end + 3;
    }
    return false;
}

Json plan_types(const plan::Plan& plan) {
    std::vector<TypeSums> types;
    for (const auto& [name, recipes] : plan.layers) {
        plan::LayerInfo layer;
        layer.name = name;
        plan::set_type_and_block(layer);
        TypeSums& sums = sums_of(types, layer.type);
        ++sums.layers;
        ++sums.planned[plan::recipes_text(plan, name)];
    }
    Json list = Json::array();
    for (const TypeSums& sums : types) {
        list.push_back({{"type", sums.type}, {"layers", sums.layers}, {"planned", sums.planned}});
    }
    return list;
}

Json to_json(const plan::Explanation& e, const std::string& glob) {
    Json json{{"target", e.target},
              {"reached", e.reached},
              {"objective", e.objective},
              {"best_objective", e.best},
              {"gap", e.gap}};
    std::vector<TypeSums> types;
    Json units = Json::array();
    for (const plan::ExplainedUnit& unit : e.units) {
        TypeSums& sums = sums_of(types, unit.type);
        ++sums.layers;
        sums.work += unit.work;
        ++sums.planned[unit.planned];
        auto& shares = sums.shares["plan"];
        shares[0] += unit.loss_share;
        shares[1] += unit.weight_share;
        if (!unit_matches(glob, unit.name)) continue;
        units.push_back({{"name", unit.name},
                         {"type", unit.type},
                         {"block", unit.block},
                         {"stage", unit.stage},
                         {"planned", unit.planned},
                         {"rank", unit.rank},
                         {"work", unit.work},
                         {"loss_share", unit.loss_share},
                         {"weight_share", unit.weight_share},
                         {"cost_per_saved", unit.ratio},
                         {"options", options_json(unit)}});
    }
    demand_match(units, glob);
    json["types"] = Json::array();
    for (TypeSums& sums : types) {
        json["types"].push_back({{"type", sums.type},
                                 {"units", sums.layers},
                                 {"work", sums.work},
                                 {"loss_share", sums.shares["plan"][0]},
                                 {"weight_share", sums.shares["plan"][1]},
                                 {"planned", sums.planned}});
    }
    json["units"] = std::move(units);
    json["notes"] = e.notes;
    return json;
}

Json to_json(const std::vector<plan::LayerSensitivity>& layers, const std::string& glob) {
    std::vector<TypeSums> types;
    Json list = Json::array();
    for (const plan::LayerSensitivity& layer : layers) {
        TypeSums& sums = sums_of(types, layer.type);
        ++sums.layers;
        sums.work += layer.work;
        Json recipes = Json::array();
        for (const plan::RecipeSensitivity& r : layer.recipes) {
            auto& shares = sums.shares[r.recipe];
            shares[0] += r.loss_share;
            shares[1] += r.weight_share;
            recipes.push_back({{"recipe", r.recipe},
                               {"x_error", r.ex},
                               {"w_error", r.ew},
                               {"g_error", r.eg},
                               {"loss", r.loss},
                               {"weight", r.weight},
                               {"damage", r.damage},
                               {"loss_share", r.loss_share},
                               {"weight_share", r.weight_share},
                               {"rank", r.rank}});
        }
        if (!unit_matches(glob, layer.name)) continue;
        list.push_back({{"name", layer.name},
                        {"type", layer.type},
                        {"block", layer.block},
                        {"work", layer.work},
                        {"recipes", std::move(recipes)}});
    }
    demand_match(list, glob);
    Json json{{"types", Json::array()}};
    for (const TypeSums& sums : types) {
        Json shares = Json::object();
        for (const auto& [recipe, share] : sums.shares) {
            shares[recipe] = {{"loss_share", share[0]}, {"weight_share", share[1]}};
        }
        json["types"].push_back({{"type", sums.type},
                                 {"layers", sums.layers},
                                 {"work", sums.work},
                                 {"recipes", std::move(shares)}});
    }
    json["layers"] = std::move(list);
    return json;
}

}  // namespace subbyte::train
