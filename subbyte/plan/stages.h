// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "subbyte/plan/layer_table.h"

namespace subbyte::plan {

// Pipeline stages are runs of consecutive blocks. Layers outside the blocks belong to the last
// stage (the head of a language model): their FLOPs are counted there. An embedding table has no
// GEMM and no row in the table; its memory is in stage 0 (CostOptions::other_parameters).

// Spreads the blocks over `stages` stages so that the largest GEMM FLOPs of a stage are as small as
// possible (exact, by dynamic programming); of all such ways the one with the smallest sum of
// squares, then the one whose first stages are the longest. Every stage gets a block. Writes
// LayerInfo::stage. Error kUsage for fewer than 1 stage or more stages than blocks.
void balance_stages(LayerTable& table, int stages);

// Stage s begins with block first_blocks[s]. Error kUsage unless they begin with 0, ascend, and
// each stage has a block.
void set_stages(LayerTable& table, const std::vector<int>& first_blocks);

// Stages as a configuration names them: one number above 0 is how many there are, balanced; a list
// that begins with 0 holds their first blocks. Errors as above.
void assign_stages(LayerTable& table, const std::vector<int>& stages);

// First block of every stage, the inverse of set_stages; -1 for a stage without blocks.
std::vector<int> first_blocks(const LayerTable& table);

}  // namespace subbyte::plan
