// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/layer_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "subbyte/core/error.h"

namespace subbyte::plan {
namespace {

// The number that `part` is, or -1.
int as_number(std::string_view part) {
    int number = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool whole = error == std::errc{} && end == part.data() + part.size();
    return whole && number >= 0 ? number : -1;
}

}  // namespace

void set_type_and_block(LayerInfo& layer) {
    layer.type = layer.name;
    layer.block = -1;
    std::string_view rest = layer.name;
    while (!rest.empty()) {
        const std::size_t dot = rest.find('.');
        const std::string_view part = rest.substr(0, dot);
        const int number = as_number(part);
        if (number < 0) {
            layer.type = part;
        } else if (layer.block < 0) {
            layer.block = number;
        }
        rest = dot == std::string_view::npos ? std::string_view{} : rest.substr(dot + 1);
    }
}

std::vector<double> candidate_shares(const LayerTable& table) {
    const bool known = std::any_of(table.begin(), table.end(),
                                   [](const LayerInfo& layer) { return layer.tokens > 0; });
    std::vector<double> shares(table.size(), 0.0);
    double total = 0;
    for (std::size_t i = 0; i < table.size(); ++i) {
        shares[i] = table[i].planned_slots() * (known ? table[i].slot_flops() : table[i].weights());
        total += shares[i];
    }
    if (total > 0) {
        for (double& share : shares) share /= total;
    }
    return shares;
}

std::vector<std::string> layer_names(const LayerTable& table) {
    std::vector<std::string> names;
    names.reserve(table.size());
    for (const LayerInfo& layer : table) names.push_back(layer.name);
    return names;
}

int stage_count(const LayerTable& table) {
    int stages = 0;
    for (const LayerInfo& layer : table) {
        if (layer.stage < 0) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("layer '{}' has pipeline stage {}", layer.name, layer.stage),
                        "stages count from 0");
        }
        stages = std::max(stages, layer.stage + 1);
    }
    return stages;
}

}  // namespace subbyte::plan
