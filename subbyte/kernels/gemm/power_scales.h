// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "subbyte/formats/quantize_reference.h"

namespace subbyte::kernels {

// E8M0 codes of 2^-40 ... 2^40: decoded values times such a scale, the products of two such values
// and the products of two such scales are normal numbers in float32, and exact in bfloat16 where
// the value is.
inline constexpr std::uint8_t kLowestPower = 127 - 40, kHighestPower = 127 + 40;

inline std::uint8_t clamp_power(std::uint8_t code) {
    return std::clamp(code, kLowestPower, kHighestPower);
}

// True when an operand has E8M0 scales for 32 codes or a multiple, each of them in that range or
// over a tile of zeros. `allow_nan`: or NaN.
bool powers_in_range(const formats::PackedView& view, const formats::QuantSpec& spec,
                     std::int64_t rows, std::int64_t k, bool allow_nan);

}  // namespace subbyte::kernels
