// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace subbyte::formats {

// Which of the two neighbours a value becomes. Values on the grid never move.
enum class Rounding {
    kNearestEven,  // ties to the even code
    kStochastic,   // away from zero with probability (|x| - lo) / (hi - lo), resolved to 2^-bits
    kNearestAway,  // ties away from zero
    kNearestZero,  // ties toward zero (ggml)
    kTowardZero,
    kUp,    // toward +infinity
    kDown,  // toward -infinity
};

inline constexpr int kMostNoiseBits = 16;  // of stochastic rounding

}  // namespace subbyte::formats
