// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/baselines.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string_view>

#include "subbyte/core/philox.h"

namespace subbyte::plan {
namespace {

// Layer types of LLaMA and GPT-2, the ones that bear low precision best first.
constexpr std::array<std::string_view, 10> kTypes{"gate_proj", "up_proj", "c_fc",   "down_proj",
                                                  "c_proj",    "q_proj",  "k_proj", "v_proj",
                                                  "c_attn",    "o_proj"};

// Low nibble 15 of a noise role belongs to planning (see the roles of ops).
constexpr std::uint16_t kPlanRole = 15;

std::uint64_t random_key(std::uint64_t seed, std::size_t layer, std::uint64_t part) {
    const PhiloxBlock noise = noise_block(
        {.seed = seed, .step = 0, .layer = static_cast<std::uint32_t>(layer), .role = kPlanRole},
        part);
    return (std::uint64_t{noise[1]} << 32) | noise[0];
}

std::vector<std::size_t> candidates(const LayerTable& table) {
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (table[i].candidate) indices.push_back(i);
    }
    return indices;
}

}  // namespace

FillOrder random_order(const LayerTable& table, std::uint64_t seed) {
    std::vector<std::pair<std::uint64_t, std::size_t>> keyed;
    for (const std::size_t i : candidates(table)) keyed.emplace_back(random_key(seed, i, 0), i);
    std::sort(keyed.begin(), keyed.end());
    FillOrder order;
    for (const auto& [key, index] : keyed) order.push_back({index});
    return order;
}

std::vector<std::pair<std::size_t, Slot>> random_gemm_order(const LayerTable& table,
                                                            std::uint64_t seed) {
    std::vector<std::pair<std::uint64_t, std::pair<std::size_t, Slot>>> keyed;
    for (const std::size_t i : candidates(table)) {
        for (const Slot slot : kSlots) {
            const auto part = 1 + static_cast<std::uint64_t>(slot);
            keyed.emplace_back(random_key(seed, i, part), std::pair(i, slot));
        }
    }
    std::sort(keyed.begin(), keyed.end());
    std::vector<std::pair<std::size_t, Slot>> order;
    for (const auto& [key, gemm] : keyed) order.push_back(gemm);
    return order;
}

FillOrder layer_type_order(const LayerTable& table) {
    std::vector<std::string_view> types(kTypes.begin(), kTypes.end());
    for (const LayerInfo& layer : table) {
        if (std::find(types.begin(), types.end(), layer.type) == types.end())
            types.push_back(layer.type);
    }
    FillOrder order;
    for (const std::string_view type : types) {
        std::vector<std::size_t> unit;
        for (const std::size_t i : candidates(table)) {
            if (table[i].type == type) unit.push_back(i);
        }
        if (!unit.empty()) order.push_back(std::move(unit));
    }
    return order;
}

FillOrder layer_id_order(const LayerTable& table) {
    std::map<int, std::vector<std::size_t>> blocks;
    FillOrder outside;
    for (const std::size_t i : candidates(table)) {
        if (table[i].block < 0) {
            outside.push_back({i});
        } else {
            blocks[table[i].block].push_back(i);
        }
    }
    FillOrder units;
    for (auto& [block, unit] : blocks) units.push_back(std::move(unit));
    // The n blocks that go first are the run that starts at ceil((count - n) / 2).
    FillOrder order;
    const std::size_t count = units.size();
    for (std::size_t n = 1; n <= count; ++n) {
        const std::size_t first = (count - n + 1) / 2;
        order.push_back(units[(count - n) % 2 == 0 ? first : first + n - 1]);
    }
    order.insert(order.end(), outside.begin(), outside.end());
    return order;
}

}  // namespace subbyte::plan
