// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "subbyte/core/philox.h"
#include "subbyte/formats/spec.h"

namespace subbyte::formats {

// A row-major float matrix somewhere in memory; rows may be further apart than their length, and
// columns may be strided (a transposed view has row_stride 1).
struct MatrixView {
    const float* data = nullptr;
    std::int64_t rows = 0, cols = 0;
    std::int64_t row_stride = 0, col_stride = 1;
    float at(std::int64_t r, std::int64_t c) const { return data[r * row_stride + c * col_stride]; }
};

// Bytes of one row of codes: a stream of bits, see code_stream.h. 4-bit codes go two per byte,
// first element in the low nibble; what is left of the last byte is 0. 16-bit codes (bf16) are
// little-endian. fp32 rows are the floats themselves.
std::int64_t row_bytes(const QuantSpec& spec, std::int64_t cols);

// Where the packed result is written. `codes` holds rows * row_bytes() bytes. Scales, one per tile
// and row-major over the tile grid: `scales_f32` for FP32 scales, `scale_codes` for the others.
// `global_scale` holds level_count() numbers, the second level (dequantisation multipliers); a
// single 1 without one, and may be null then. `signs` holds the 128 sign bits of a fresh rotation;
// may be null without one.
struct PackedView {
    std::uint8_t* codes = nullptr;
    float* scales_f32 = nullptr;
    std::uint8_t* scale_codes = nullptr;
    float* global_scale = nullptr;
    std::uint32_t* signs = nullptr;
};

// The one definition of quantisation: scalar, slow, obviously right. Every kernel is compared with
// it bit by bit. In float32 with subnormals kept, whatever the mode of the calling thread:
//
//   scale            stored                       element code          value
//   f32              amax / max                   encode(x / scale)     q * scale
//   e8m0             a power of two, by the rule  encode(x / scale)     q * scale
//   ue4m3, ue5m3(h)  RNE((amax / max) * encode)   encode(clamp(x * r))  (q * scale) * decode
//   f32+f32          (amax * encode) / max        encode(clamp(x * r))  (q * scale) * decode
//   e8m0+f32         by the rule of amax * encode encode(clamp(x * r))  (q * scale) * decode
//
// r = min(1 / (scale * decode), FLT_MAX); clamp to what the element holds; encode and decode are
// those of second_level(), 1 without one. tile_scale.h has the other orders of operations and the
// guards; hadamard.h the rotation, which comes first here and is undone last by decoding.
//
// 4over6: of the scales for raise = 1 and raise = 1.5 the one with the smaller sum of |x - value|
// or (x - value)^2 over the tile, in double, elements rounded to nearest; a tie takes the first.
// mseden: after rounding, the scales of each rotation group are multiplied by sum(x^2) / sum(x *
// value) (double, 1 when the latter is not positive) and rounded at random, with the noise word of
// the first element of their tile.
//
// Corners: a zero tile has scale 1 (E8M0: byte 0; ue: code 0) and exact zeros; a tile with NaN or
// Inf has a NaN scale, codes 0, and decodes to NaN; such tiles do not count for the second level,
// so that only they are lost; signed zeros are kept. bf16 rounds each element alone: Inf and NaN
// stay what they are. The noise of stochastic rounding for element (r, c) is
// noise_bits16(noise, r * cols + c).
void quantize_reference(const MatrixView& source, const QuantSpec& spec, const NoiseAddress& noise,
                        const PackedView& packed);

// Inverse: out (rows x cols, contiguous) receives the values, in float32.
void dequantize_reference(const PackedView& packed, const QuantSpec& spec, std::int64_t rows,
                          std::int64_t cols, float* out);

}  // namespace subbyte::formats
