// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "subbyte/plan/slot.h"

namespace subbyte::plan {

// One linear layer as the planner sees it: shapes and names, never tensors.
struct LayerInfo {
    std::string name;  // module path, e.g. "model.layers.3.mlp.down_proj"
    std::string type;  // last component that is no number, e.g. "down_proj"
    int block = -1;    // transformer block (first number in the path), -1 outside the blocks
    std::int64_t in_features = 0, out_features = 0;
    std::int64_t tokens = 0;  // rows of X per step; 0: not known yet
    bool candidate = true;    // false: keeps its high precision (embedding, head, excluded by rule)
    int stage = 0;            // pipeline stage
    // Recipes that a rule gives single slots of a candidate, whatever the plan; "": the plan's.
    std::array<std::string, 3> pinned{};

    // Whether a plan chooses the recipe of this slot. What it does not choose is no work that could
    // be saved; its errors are part of the layer's damage, whatever is chosen for the others.
    bool plans(Slot slot) const {
        return candidate && pinned[static_cast<std::size_t>(slot)].empty();
    }
    // The recipes of the slots when a plan gives the layer `recipe`: pinned ones stay.
    std::array<std::string, 3> with(const std::string& recipe) const {
        std::array<std::string, 3> recipes = pinned;
        for (std::string& slot : recipes) {
            if (slot.empty()) slot = recipe;
        }
        return recipes;
    }
    int planned_slots() const { return plans(kSlots[0]) + plans(kSlots[1]) + plans(kSlots[2]); }

    double weights() const { return double(in_features) * double(out_features); }
    // FLOPs of one GEMM slot for one step: 2 * tokens * in * out. All three slots cost the same.
    double slot_flops() const { return 2.0 * double(tokens) * weights(); }
};

using LayerTable = std::vector<LayerInfo>;

// Fills `type` and `block` from `name`.
void set_type_and_block(LayerInfo& layer);

// Each layer's share of the GEMM FLOPs that plans choose for: 0 for layers that are no candidates,
// sum 1 (all 0 when no candidate has work); the planned slots of a layer have equal parts of its
// share. When no layer knows its tokens yet, all are taken to have the same number.
std::vector<double> candidate_shares(const LayerTable& table);

// The names, in the order of the table.
std::vector<std::string> layer_names(const LayerTable& table);

// Number of pipeline stages: largest stage + 1. Error kUsage that names a layer with a negative
// stage.
int stage_count(const LayerTable& table);

}  // namespace subbyte::plan
