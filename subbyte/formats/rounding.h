// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace subbyte::formats {

enum class Rounding {
    kNearestEven,  // ties to the even code
    kStochastic,   // up with probability (|x| - lo) / (hi - lo), resolved to 2^-16
};

}  // namespace subbyte::formats
