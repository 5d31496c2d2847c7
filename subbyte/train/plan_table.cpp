// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/plan_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "subbyte/plan/recipe.h"

namespace subbyte::train {
namespace {

// Widest line; deeper models get one character per block.
constexpr std::size_t kTableWidth = 100;

using Slots = std::array<std::string, 3>;  // recipes of fprop, dgrad, wgrad; empty: no layer

struct Row {
    std::string type;
    std::map<int, Slots> blocks;
};

// "4", "8", "b" (bf16), "f" (fp16 and wider): the element width of a recipe.
std::string width_of(const std::string& recipe) {
    if (recipe.empty()) return "";
    const int bits = plan::find_recipe(recipe)[plan::Slot::kFprop].widest_bits();
    return bits < 10 ? fmt::to_string(bits) : recipe == "bf16" ? "b" : "f";
}

bool differ(const Slots& slots) { return slots[0] != slots[1] || slots[0] != slots[2]; }

bool differ(const Row& row) {
    return std::any_of(row.blocks.begin(), row.blocks.end(),
                       [](const auto& entry) { return differ(entry.second); });
}

Slots slots_at(const Row& row, int block) {
    const auto entry = row.blocks.find(block);
    return entry == row.blocks.end() ? Slots{} : entry->second;
}

std::vector<Row> rows_of(const plan::Plan& plan, const plan::LayerTable& table) {
    std::vector<Row> rows;
    for (const plan::LayerInfo& layer : table) {
        if (!layer.candidate || layer.block < 0) continue;
        auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const Row& r) { return r.type == layer.type; });
        if (row == rows.end()) row = rows.insert(row, {.type = layer.type, .blocks = {}});
        for (const plan::Slot slot : plan::kSlots) {
            row->blocks[layer.block][static_cast<std::size_t>(slot)] =
                plan.recipe(layer.name, slot);
        }
    }
    return rows;
}

// Two recipes of the plan have the same width.
bool is_ambiguous(const std::vector<Row>& rows) {
    std::map<std::string, std::string> recipe_of;
    for (const Row& row : rows) {
        for (const auto& [block, slots] : row.blocks) {
            for (const std::string& recipe : slots) {
                if (recipe_of.emplace(width_of(recipe), recipe).first->second != recipe) {
                    return true;
                }
            }
        }
    }
    return false;
}

std::string cell_of(Slots slots, bool names) {
    if (!differ(slots)) return slots[0];
    if (!names) std::transform(slots.begin(), slots.end(), slots.begin(), width_of);
    return fmt::format("{}", fmt::join(slots, "/"));
}

std::string wide_table(const std::vector<Row>& rows, int blocks, std::size_t width, bool names) {
    std::string text = fmt::format("{:<12}", "block");
    for (int b = 0; b < blocks; ++b) text += fmt::format(" {:>{}}", b, width);
    text += '\n';
    for (const Row& row : rows) {
        text += fmt::format("{:<12}", row.type);
        for (int b = 0; b < blocks; ++b) {
            text += fmt::format(" {:>{}}", cell_of(slots_at(row, b), names), width);
        }
        text += '\n';
    }
    const bool mixed =
        std::any_of(rows.begin(), rows.end(), [](const Row& row) { return differ(row); });
    if (!mixed) return text;
    return text + (names ? "a/b/c: recipes of fprop, dgrad and wgrad\n"
                         : "a/b/c: bits of fprop, dgrad and wgrad\n");
}

std::string narrow_table(const std::vector<Row>& rows, int blocks) {
    std::size_t label = 12;
    for (const Row& row : rows) {
        label = std::max(label, row.type.size() + (differ(row) ? 6 : 0));
    }
    std::string text = fmt::format("{:<{}}", "block", label);
    for (int b = 0; b < blocks; b += 10) text += fmt::format(" {:<10}", b);  // columns of ten
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
    for (const Row& row : rows) {
        for (const plan::Slot slot : plan::kSlots) {
            if (!differ(row) && slot != plan::Slot::kFprop) break;
            const std::string name =
                differ(row) ? fmt::format("{} {}", row.type, plan::slot_name(slot)) : row.type;
            text += fmt::format("{:<{}}", name, label);
            for (int b = 0; b < blocks; ++b) {
                text += fmt::format("{}{:>1}", b % 10 == 0 ? " " : "",
                                    width_of(slots_at(row, b)[static_cast<std::size_t>(slot)]));
            }
            text += '\n';
        }
    }
    return text + "one character per block: 4 and 8 bits, b bf16, f wider\n";
}

}  // namespace

std::string plan_table(const plan::Plan& plan, const plan::LayerTable& table) {
    const std::vector<Row> rows = rows_of(plan, table);
    if (rows.empty()) return "no layer inside the blocks is planned\n";
    const bool names = is_ambiguous(rows);
    std::size_t width = 4;
    int blocks = 0;
    for (const Row& row : rows) {
        for (const auto& [block, slots] : row.blocks) {
            width = std::max(width, cell_of(slots, names).size());
            blocks = std::max(blocks, block + 1);
        }
    }
    const std::size_t line = 12 + static_cast<std::size_t>(blocks) * (width + 1);
    return line > kTableWidth ? narrow_table(rows, blocks) : wide_table(rows, blocks, width, names);
}

}  // namespace subbyte::train
