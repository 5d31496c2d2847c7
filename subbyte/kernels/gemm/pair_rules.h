// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string_view>

#include "subbyte/kernels/gemm/gemm.h"

namespace subbyte::kernels {

// Codes along K that share one scale on either side, as the kernels know it: the largest of 128,
// 64, 32, 16 that divides the column extents of both tile grids; 0 when none does. A tile that
// spans the whole of K sets no limit.
int scale_block(const GemmProblem& problem);

// What multiplies the scaled sums of products in the end: the guard of MX scales, and what the
// integers count in where a code was decoded to an integer (E2M1: halves, MXINT8: 1/64). The
// kernels that decode to floats do so for 8-bit integers only.
float float_factor(const GemmProblem& problem);
float integer_factor(const GemmProblem& problem);

// Why a kernel that decodes `elements` (names) and works in blocks of 16 to 128 codes does not
// take this problem: an element, a scale format or a tile that it does not know, or rotations that
// differ. Operands with equal rotations have the product of the originals and are multiplied as
// they are.
Refusal refuse_pair(const GemmProblem& problem, std::initializer_list<std::string_view> elements);

}  // namespace subbyte::kernels
