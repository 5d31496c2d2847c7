// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "subbyte/plan/json_reader.h"
#include "subbyte/plan/recipe.h"

namespace subbyte::plan {
namespace {

// Names in the file and the members they stand for.
struct Field {
    const char* name;
    double LayerStatistics::*member;
};

constexpr Field kFields[] = {
    {"x", &LayerStatistics::x},
    {"w", &LayerStatistics::w},
    {"y", &LayerStatistics::y},
    {"g", &LayerStatistics::g},
    {"dx", &LayerStatistics::dx},
    {"dw", &LayerStatistics::dw},
    {"t", &LayerStatistics::t},
    {"k", &LayerStatistics::k},
    {"n", &LayerStatistics::n},
    {"jacobian", &LayerStatistics::jacobian},
    {"update_numel", &LayerStatistics::update_numel},
};

// Members of an error entry that not every file has.
struct OptionalField {
    const char* name;
    std::optional<double> LayerStatistics::Errors::*member;
};

constexpr OptionalField kOptionalErrors[] = {
    {"ew_dgrad", &LayerStatistics::Errors::ew_dgrad},
    {"eg_wgrad", &LayerStatistics::Errors::eg_wgrad},
    {"ex_wgrad", &LayerStatistics::Errors::ex_wgrad},
};

constexpr std::int64_t kMost = std::int64_t{1} << 53;

nlohmann::json layer_to_json(const LayerInfo& info, const LayerStatistics& layer) {
    nlohmann::json json{{"name", info.name},
                        {"type", info.type},
                        {"block", info.block},
                        {"in_features", info.in_features},
                        {"out_features", info.out_features},
                        {"tokens", info.tokens},
                        {"candidate", info.candidate},
                        {"stage", info.stage},
                        {"backward", layer.backward},
                        {"forward", layer.forward},
                        {"errors", nlohmann::json::object()}};
    for (const Field& field : kFields) json[field.name] = layer.*field.member;
    if (info.planned_slots() < 3 && info.candidate) json["pinned"] = info.pinned;
    if (layer.outer) json["outer"] = *layer.outer;
    if (layer.curvature) json["curvature"] = *layer.curvature;
    for (const auto& [recipe, errors] : layer.errors) {
        nlohmann::json entry{{"ex", errors.ex}, {"ew", errors.ew}, {"eg", errors.eg}};
        for (const OptionalField& field : kOptionalErrors) {
            if (const auto& value = errors.*field.member) entry[field.name] = *value;
        }
        if (errors.first_order) entry["first_order"] = *errors.first_order;
        if (errors.output) {
            entry["output"] = {{"squared", errors.output->squared},
                               {"elements", errors.output->elements},
                               {"tokens", errors.output->tokens}};
        }
        json["errors"][recipe] = std::move(entry);
    }
    return json;
}

LayerInfo info_from_json(const JsonReader& reader) {
    LayerInfo info;
    info.name = reader["name"].text();
    info.type = reader["type"].text();
    info.block = static_cast<int>(reader["block"].integer(-1, 1 << 30));
    info.in_features = reader["in_features"].integer(0, kMost);
    info.out_features = reader["out_features"].integer(0, kMost);
    info.tokens = reader["tokens"].integer(0, kMost);
    info.candidate = reader["candidate"].boolean();
    info.stage = static_cast<int>(reader["stage"].integer(0, 1 << 20));
    if (reader.has("pinned")) {
        const JsonReader pinned = reader["pinned"];
        if (pinned.size() != 3) pinned.fail("one recipe, or none, for each of the three slots");
        for (std::size_t s = 0; s < 3; ++s) {
            info.pinned[s] = pinned[s].text();
            if (info.pinned[s].empty()) continue;
            const auto& [mistake, hint] = recipe_mistake(info.pinned[s]);
            if (!mistake.empty()) pinned[s].fail(mistake, hint);
        }
    }
    return info;
}

// Empty, or one gain per layer of the model.
std::vector<double> read_gains(const JsonReader& reader, std::size_t layers) {
    std::vector<double> gains = reader.numbers();
    if (!gains.empty() && gains.size() != layers) {
        reader.fail(fmt::format("{} gains for {} layers", gains.size(), layers));
    }
    return gains;
}

LayerStatistics layer_from_json(const JsonReader& reader, std::size_t layers) {
    LayerStatistics layer;
    for (const Field& field : kFields) layer.*field.member = reader[field.name].number(0);
    layer.backward = read_gains(reader["backward"], layers);
    layer.forward = read_gains(reader["forward"], layers);
    if (reader.has("outer")) layer.outer = reader["outer"].number(0);
    if (reader.has("curvature")) layer.curvature = reader["curvature"].number();
    const JsonReader errors = reader["errors"];
    std::vector<std::string> members{"ex", "ew", "eg", "first_order", "output"};
    for (const OptionalField& field : kOptionalErrors) members.emplace_back(field.name);
    for (const std::string& recipe : errors.keys()) {
        const JsonReader entry = errors[recipe];
        entry.allow(members);
        LayerStatistics::Errors& e = layer.errors[recipe];
        e.ex = entry["ex"].number(0);
        e.ew = entry["ew"].number(0);
        e.eg = entry["eg"].number(0);
        for (const OptionalField& field : kOptionalErrors) {
            if (entry.has(field.name)) e.*field.member = entry[field.name].number(0);
        }
        if (entry.has("first_order")) e.first_order = entry["first_order"].number();
        if (!entry.has("output")) continue;
        const JsonReader output = entry["output"];
        output.allow({"squared", "elements", "tokens"});
        e.output = {.squared = output["squared"].number(0),
                    .elements = output["elements"].number(0),
                    .tokens = output["tokens"].number(0)};
    }
    return layer;
}

}  // namespace

std::array<double, 2> LayerStatistics::Errors::of(Slot slot) const {
    if (slot == Slot::kFprop) return {ex, ew};
    if (slot == Slot::kDgrad) return {eg, ew_dgrad.value_or(ew)};
    return {eg_wgrad.value_or(eg), ex_wgrad.value_or(ex)};
}

nlohmann::json to_json(const ModelStatistics& statistics) {
    nlohmann::json layers = nlohmann::json::array();
    for (std::size_t i = 0; i < statistics.layers.size(); ++i) {
        layers.push_back(layer_to_json(statistics.table[i], statistics.layers[i]));
    }
    return {
        {"version", 1}, {"step", statistics.step}, {"loss", statistics.loss}, {"layers", layers}};
}

ModelStatistics statistics_from_json(const nlohmann::json& json) {
    const JsonReader reader(json, "statistics");
    reader.allow({"version", "step", "loss", "layers"});
    reader["version"].integer(1, 1);
    std::vector<std::string> members{
        "name",  "type",     "block",   "in_features", "out_features", "tokens",    "candidate",
        "stage", "backward", "forward", "errors",      "outer",        "curvature", "pinned"};
    for (const Field& field : kFields) members.emplace_back(field.name);

    ModelStatistics statistics;
    statistics.step = static_cast<long>(reader["step"].integer(0, kMost));
    statistics.loss = reader["loss"].number();
    const JsonReader layers = reader["layers"];
    for (std::size_t i = 0; i < layers.size(); ++i) {
        layers[i].allow(members);
        statistics.table.push_back(info_from_json(layers[i]));
        statistics.layers.push_back(layer_from_json(layers[i], layers.size()));
    }
    return statistics;
}

}  // namespace subbyte::plan
