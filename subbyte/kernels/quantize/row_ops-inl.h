// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// RowOps for one instruction set, whose simd/*-inl.h must be included before. Everything has
// internal linkage: each instruction set gets its own copy.
#pragma once

#include "subbyte/kernels/quantize/decode-inl.h"
#include "subbyte/kernels/quantize/encode-inl.h"
#include "subbyte/kernels/quantize/encode_down-inl.h"
#include "subbyte/kernels/quantize/noise-inl.h"
#include "subbyte/kernels/quantize/rotate-inl.h"
#include "subbyte/kernels/quantize/row_ops.h"
#include "subbyte/kernels/quantize/scales-inl.h"

namespace subbyte::kernels {
namespace {

template <class E>
constexpr RowOps::Encodes kEncodes{
    encode_row<E, Round::kNearest>, encode_row<E, Round::kNoise16>, encode_row<E, Round::kNoise8>,
    encode_row<E, Round::kAway>,    encode_row<E, Round::kZero>,    encode_row<E, Round::kUp>,
    encode_row<E, Round::kDown>,
};

template <class E>
constexpr RowOps::Encodes kTableEncodes{
    encode_table_row<E, Round::kNearest>,
    nullptr,
    nullptr,
    encode_table_row<E, Round::kAway>,
    encode_table_row<E, Round::kZero>,
    encode_table_row<E, Round::kUp>,
    encode_table_row<E, Round::kDown>,
};

template <class E>
constexpr std::array<RowOps::EncodeDown, 2> kEncodesDown{encode_down<E, Round::kNearest, false>,
                                                         encode_down<E, Round::kNoise16, false>};
template <class E>
constexpr std::array<RowOps::EncodeDown, 2> kEncodesNarrow{encode_down<E, Round::kNearest, true>,
                                                           encode_down<E, Round::kNoise16, true>};

constexpr RowOps kRowOps{
    amax_row,
    amax_columns,
    scale_tiles,
    {kEncodes<E4m3>, kEncodes<E5m2>, kEncodes<E2m1>, kEncodes<Int8>, kEncodes<Int4>, kEncodes<E2m3>,
     kEncodes<E3m2>, kEncodes<E3m4>, kEncodes<MxInt8>, kTableEncodes<Nf4>, kTableEncodes<Lns8>,
     kTableEncodes<Lns4>, kTableEncodes<Dynamic8>, kTableEncodes<UDynamic8>,
     kTableEncodes<Dynamic4>, kTableEncodes<ULinear4>},
    {kEncodesDown<E4m3>, kEncodesDown<E5m2>, kEncodesDown<E2m1>, kEncodesDown<Int8>,
     kEncodesDown<Int4>},
    {kEncodesNarrow<E4m3>, kEncodesNarrow<E5m2>, kEncodesNarrow<E2m1>, kEncodesNarrow<Int8>,
     kEncodesNarrow<Int4>},
    encode_bf16_down,
    pack_nibbles_row,
    encode_bf16_row,
    noise_row,
    transpose_rows,
    rotate_columns,
    {decode_row<E4m3>, decode_row<E5m2>, decode_row<E2m1>, decode_row<Int8>, decode_row<Int4>,
     decode_row<E2m3>, decode_row<E3m2>, decode_row<E3m4>, decode_row<MxInt8>, decode_row<Nf4>,
     decode_row<Lns8>, decode_row<Lns4>, decode_row<Dynamic8>, decode_row<UDynamic8>,
     decode_row<Dynamic4>, decode_row<ULinear4>},
    decode_bf16_row,
};

}  // namespace
}  // namespace subbyte::kernels
