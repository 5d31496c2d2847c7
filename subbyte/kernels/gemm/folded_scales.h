// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "subbyte/formats/quantize_reference.h"

namespace subbyte::kernels {

// True when the scales of an operand can be multiplied into its decoded bfloat16 values exactly,
// and products with another such operand stay normal float32 numbers: E8M0 scales for 32 codes or
// a multiple, each within 2^-40 ... 2^40 or over a tile of zeros. NaN scales do not hinder.
bool scales_fold(const formats::PackedView& view, const formats::QuantSpec& spec, std::int64_t rows,
                 std::int64_t k);

}  // namespace subbyte::kernels
