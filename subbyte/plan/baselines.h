// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "subbyte/plan/layer_table.h"

namespace subbyte::plan {

// Rules that need no measurement name an order in which layers go to low precision; the planner
// follows it until the budget is reached. Layers of one unit go together; with one recipe per GEMM
// the GEMMs of a layer do, but for `random`. Definitions (ours: the papers give the ideas only):
//
//   random      every candidate, or every GEMM, alone, in an order drawn from the seed
//   layer-type  all layers of a type together, the types that bear low precision best first: the
//               MLP (gate, up, down), then the attention (q, k, v, o), then types without a rule,
//               as they come
//   layer-id    whole blocks from the middle outwards: the first a and the last b stay high, with
//               a + b = floor((1 - E_t) * blocks) and a = b or b + 1; layers outside the blocks
//               come last
//
// Units hold indices into the table; candidates only.
using FillOrder = std::vector<std::vector<std::size_t>>;

FillOrder random_order(const LayerTable& table, std::uint64_t seed);
std::vector<std::pair<std::size_t, Slot>> random_gemm_order(const LayerTable& table,
                                                            std::uint64_t seed);
FillOrder layer_type_order(const LayerTable& table);
FillOrder layer_id_order(const LayerTable& table);

}  // namespace subbyte::plan
