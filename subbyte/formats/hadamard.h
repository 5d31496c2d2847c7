// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "subbyte/core/philox.h"

namespace subbyte::formats {

// Random Hadamard transform of a row: x' = (x * sign) H_d / sqrt(d) on groups of d = 16, 32, 64 or
// 128 neighbours along the columns, the contraction axis. H_d is Sylvester's: H[i][j] is -1 where
// i & j has an odd number of ones. The transform spreads outliers over their group and is
// orthogonal: two operands with equal signs have the product of the originals.
//
// A last group of fewer columns is cut into the largest powers of two that fit (13 = 8 + 4 + 1),
// each with its own H: no padding, and still orthogonal.
//
// Arithmetic, all in float32: signs, butterflies (a + b, a - b) with distance 1, 2, 4, ..., then
// one multiplication by 1 / sqrt(d) rounded to nearest. Any NaN or Inf makes its group NaN or Inf.

// Sign of each of up to 128 positions of a group; bit j set: position j is negated.
using SignBits = std::array<std::uint32_t, 4>;

constexpr bool is_negative(const SignBits& signs, int position) {
    return (signs[static_cast<std::size_t>(position) / 32] >> (position % 32) & 1) != 0;
}

// The signs of `rht16` ... `rht128`, the same in every run: those of the all-zero noise address.
SignBits fixed_signs();

// The signs of `rht16fresh` ...: the last block of the noise stream (seed, step, layer, slot). Of
// the role only the bits of the GEMM slot count (noise_role() in ops: bits 1 ... 3), so that both
// operands of a GEMM, and all micro-batches, agree.
SignBits fresh_signs(const NoiseAddress& address);

// 1 / sqrt(size) rounded to nearest, for a power of two.
constexpr float hadamard_factor(int size) {
    float factor = 1.0f;
    for (int rest = size; rest > 1; rest /= 4) {
        factor *= rest == 2 ? 0.70710678118654752f : 0.5f;  // sqrt(1/2)
    }
    return factor;
}

// Transforms a row of `cols` values in place; back_ is the inverse.
void rotate_row(float* x, std::int64_t cols, int size, const SignBits& signs);
void rotate_row_back(float* x, std::int64_t cols, int size, const SignBits& signs);

}  // namespace subbyte::formats
