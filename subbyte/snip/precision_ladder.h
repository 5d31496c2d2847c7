// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subbyte/plan/plan.h"

namespace subbyte::snip {

// Whether the GEMM `slot` has wider elements under recipe `a` than under `b` (the wider operand
// decides, then the mean of both). Error kUsage for an unknown recipe.
bool is_more_precise(const std::string& a, const std::string& b, plan::Slot slot);

// The recipes a run knows, as steps of precision: what a guard may raise a GEMM to.
class PrecisionLadder {
public:
    // The options of the planner and the recipe of high precision above them.
    PrecisionLadder(std::vector<std::string> options, const std::string& high);

    // The next step above `recipe` in this slot; `recipe` itself when there is none.
    const std::string& above(const std::string& recipe, plan::Slot slot) const;

private:
    std::vector<std::string> recipes_;
};

// Gives the slot of the layer `recipe`, unless what it has is as precise. True when it changed.
bool raise_slot(plan::Plan& plan, const std::string& layer, plan::Slot slot,
                const std::string& recipe);

}  // namespace subbyte::snip
