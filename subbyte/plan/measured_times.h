// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subbyte/plan/layer_table.h"
#include "subbyte/plan/machine_profile.h"

namespace subbyte::plan {

// What a machine profile says about all layers of one type and shape in one recipe.
struct MeasuredTime {
    std::string type, recipe;
    int layers = 0;
    std::int64_t tokens = 0, in_features = 0, out_features = 0;
    // Of one layer, all three GEMMs; `seconds` includes `quantise`.
    double seconds = 0, quantise = 0, bf16_seconds = 0;
    bool measured = true;  // false: interpolated

    bool pays() const { return seconds < bf16_seconds; }
};

// Candidates of the table by type and shape, in its order, with every recipe in turn. Error kUsage
// for recipes that the profile has no times of (BF16 among them).
std::vector<MeasuredTime> measured_times(const LayerTable& table, const MachineProfile& profile,
                                         const std::vector<std::string>& recipes);

}  // namespace subbyte::plan
