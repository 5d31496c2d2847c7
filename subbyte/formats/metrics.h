// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "subbyte/formats/quantize_reference.h"

namespace subbyte::formats {

// What quantisation did to a matrix. Sums are taken in double, in an order that depends only on the
// shape. Elements whose source or decoded value is NaN or Inf are counted and left out of
// everything else.
struct QuantizationError {
    double relative_error = 0.0;  // ||decoded - source||_F / ||source||_F; 0 for a zero matrix
    double sqnr_db = 0.0;         // -20 log10(relative_error); +Inf when nothing was lost
    double max_abs_error = 0.0;
    double error_norm = 0.0;       // ||decoded - source||_F
    double source_norm = 0.0;      // ||source||_F
    double saturated_share = 0.0;  // elements cut off at the largest code of their tile
    double underflow_share = 0.0;  // nonzero elements that became zero
    std::int64_t nonfinite = 0;
};

// `decoded` is rows x cols, contiguous, as dequantize gave it; `packed` and `spec` are what it came
// from. An element is saturated when its code is the largest of the format and its value is smaller
// than the source by more than 2^-20 of it (so that the rounding of the scale alone never counts).
// Under a rotation codes and values are not of the same numbers, and no element counts.
QuantizationError measure_error(const MatrixView& source, const QuantSpec& spec,
                                const PackedView& packed, const float* decoded);

}  // namespace subbyte::formats
