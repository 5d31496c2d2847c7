// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "subbyte/formats/element.h"

namespace subbyte::kernels {

// The values of all codes of an element of 4 to 8 bits, in the forms that GEMM kernels decode to.
// Codes beyond the format's count repeat from 0.
struct CodeValues {
    alignas(64) float f32[256];
    alignas(64) std::uint8_t bf16_low[256];
    alignas(64) std::uint8_t bf16_high[256];  // upper byte of the same bfloat16
    alignas(64) std::int8_t integers[256];    // value / unit; 0 where that is no int8
    float unit;  // the smallest step: E2M1 1/2, E2M3 1/8, integers 1, MXINT8 1/64
};

// Tables of one element, made at the first call. Error kInternal for an element whose values are
// no bfloat16 numbers.
const CodeValues& code_values(const formats::ElementFormat& element);

}  // namespace subbyte::kernels
