// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// RowOps for one instruction set, whose simd/*-inl.h must be included before. Everything has
// internal linkage: each instruction set gets its own copy.
#pragma once

#include "subbyte/kernels/quantize/decode-inl.h"
#include "subbyte/kernels/quantize/encode-inl.h"
#include "subbyte/kernels/quantize/noise-inl.h"
#include "subbyte/kernels/quantize/row_ops.h"
#include "subbyte/kernels/quantize/scales-inl.h"

namespace subbyte::kernels {
namespace {

constexpr RowOps kRowOps{
    amax_row,
    amax_columns,
    scale_tiles,
    {{encode_row<E4m3, false>, encode_row<E4m3, true>},
     {encode_row<E5m2, false>, encode_row<E5m2, true>},
     {encode_row<E2m1, false>, encode_row<E2m1, true>},
     {encode_row<Int8, false>, encode_row<Int8, true>},
     {encode_row<Int4, false>, encode_row<Int4, true>}},
    pack_nibbles_row,
    encode_bf16_row,
    noise_row,
    transpose_rows,
    {decode_row<E4m3>, decode_row<E5m2>, decode_row<E2m1>, decode_row<Int8>, decode_row<Int4>},
    decode_bf16_row,
};

}  // namespace
}  // namespace subbyte::kernels
