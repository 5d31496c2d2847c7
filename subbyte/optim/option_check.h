// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "subbyte/core/error.h"

namespace subbyte::optim {

// Error kUsage "<field> is <value>, must be <range>" unless `good` holds and the value is finite.
inline void check_option(std::string_view field, double value, bool good, std::string_view range) {
    if (good && std::isfinite(value)) return;
    throw Error(ErrorCode::kUsage, fmt::format("{} is {}, must be {}", field, value, range));
}

// A decay rate of an exponential average.
inline void check_rate(std::string_view field, double value) {
    check_option(field, value, value >= 0 && value < 1, "in [0, 1)");
}

// Added to a denominator that may be 0, also after rounding to FP32.
inline void check_eps(double value) {
    check_option("eps", value, value >= 1.2e-38,
                 "at least 1.2e-38, the smallest normal FP32 number");
}

}  // namespace subbyte::optim
