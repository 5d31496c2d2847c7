// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace subbyte {

// One decision of the precision control beside the planner, told when it is made. `step` is an
// iteration (skipped steps count) and the first one that runs under it.
struct ControlEvent {
    std::int64_t step = 0;
    std::string control{};  // "noise-guard", "spike-guard", "ramp", "tail", "loss-adjust"
    std::string
        action{};  // what was done: "raise", "promote", "release", "roll-back", "lower", ...
    std::string reason{};              // why, with the numbers
    std::vector<std::string> slots{};  // what it is about: "model.layers.0.mlp.up_proj.wgrad"
};

}  // namespace subbyte
