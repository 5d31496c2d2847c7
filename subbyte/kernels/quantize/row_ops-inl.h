// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// RowOps for one instruction set, whose simd/*-inl.h must be included before. Everything has
// internal linkage: each instruction set gets its own copy.
#pragma once

#include "subbyte/kernels/quantize/decode-inl.h"
#include "subbyte/kernels/quantize/encode-inl.h"
#include "subbyte/kernels/quantize/noise-inl.h"
#include "subbyte/kernels/quantize/rotate-inl.h"
#include "subbyte/kernels/quantize/row_ops.h"
#include "subbyte/kernels/quantize/scales-inl.h"

namespace subbyte::kernels {
namespace {

constexpr RowOps kRowOps{
    amax_row,
    amax_columns,
    scale_tiles,
    {{encode_row<E4m3, 0>, encode_row<E4m3, 16>, encode_row<E4m3, 8>},
     {encode_row<E5m2, 0>, encode_row<E5m2, 16>, encode_row<E5m2, 8>},
     {encode_row<E2m1, 0>, encode_row<E2m1, 16>, encode_row<E2m1, 8>},
     {encode_row<Int8, 0>, encode_row<Int8, 16>, encode_row<Int8, 8>},
     {encode_row<Int4, 0>, encode_row<Int4, 16>, encode_row<Int4, 8>},
     {encode_row<E2m3, 0>, encode_row<E2m3, 16>, encode_row<E2m3, 8>},
     {encode_row<E3m2, 0>, encode_row<E3m2, 16>, encode_row<E3m2, 8>},
     {encode_row<E3m4, 0>, encode_row<E3m4, 16>, encode_row<E3m4, 8>},
     {encode_row<MxInt8, 0>, encode_row<MxInt8, 16>, encode_row<MxInt8, 8>}},
    pack_nibbles_row,
    encode_bf16_row,
    noise_row,
    transpose_rows,
    rotate_columns,
    {decode_row<E4m3>, decode_row<E5m2>, decode_row<E2m1>, decode_row<Int8>, decode_row<Int4>,
     decode_row<E2m3>, decode_row<E3m2>, decode_row<E3m4>, decode_row<MxInt8>},
    decode_bf16_row,
};

}  // namespace
}  // namespace subbyte::kernels
