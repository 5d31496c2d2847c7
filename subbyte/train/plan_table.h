// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "subbyte/plan/layer_table.h"
#include "subbyte/plan/plan.h"

namespace subbyte::train {

// The plan as a table: one row per layer type, one column per block, the recipe in the cell. Where
// the three GEMMs differ it holds the bits of fprop, dgrad and wgrad ("8/4/4"; their recipes when
// two of the plan have the same bits). With many blocks each is one character, and a type whose
// GEMMs differ has a row for each. Candidates inside the blocks only.
std::string plan_table(const plan::Plan& plan, const plan::LayerTable& table);

}  // namespace subbyte::train
