// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0

// The vocabulary of the instruction set comes first; row_ops-inl.h is written in it.
#include "subbyte/kernels/simd/avx512-inl.h"

#include "subbyte/kernels/quantize/row_ops-inl.h"

namespace subbyte::kernels {

const RowOps& avx512_row_ops() { return kRowOps; }

}  // namespace subbyte::kernels
