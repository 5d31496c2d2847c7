// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

    double weights() const { return double(in_features) * double(out_features); }
    // FLOPs of one GEMM slot for one step: 2 * tokens * in * out. All three slots cost the same.
    double slot_flops() const { return 2.0 * double(tokens) * weights(); }
};

using LayerTable = std::vector<LayerInfo>;

// Fills `type` and `block` from `name`.
void set_type_and_block(LayerInfo& layer);

// Each layer's share of the GEMM FLOPs of all candidates: 0 for the others, sum 1 (all 0 when no
// candidate has work). When no layer knows its tokens yet, all are taken to have the same number.
std::vector<double> candidate_shares(const LayerTable& table);

// The names, in the order of the table.
std::vector<std::string> layer_names(const LayerTable& table);

// Number of pipeline stages: largest stage + 1. Error kUsage that names a layer with a negative
// stage.
int stage_count(const LayerTable& table);

}  // namespace subbyte::plan
