// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/simd/avx512-inl.h"
#include "subbyte/kernels/quantize/row_ops-inl.h"

namespace subbyte::kernels {

const RowOps& avx512_row_ops() { return kRowOps; }

}  // namespace subbyte::kernels
