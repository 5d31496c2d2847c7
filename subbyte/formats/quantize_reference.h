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

// Bytes of one row of codes: 4-bit codes go two per byte, first element in the low nibble; the
// unused nibble of an odd row is 0. 16-bit codes (bf16) are little-endian. fp32 rows are the floats
// themselves.
std::int64_t row_bytes(const QuantSpec& spec, std::int64_t cols);

// Where the packed result is written. `codes` holds rows * row_bytes() bytes. Scales, one per tile
// and row-major over the tile grid: `scales_f32` for FP32 scales, `scale_codes` for E8M0 / UE4M3.
// `global_scale` is the second level (dequantisation multiplier); 1 without one, and may be null
// then.
struct PackedView {
    std::uint8_t* codes = nullptr;
    float* scales_f32 = nullptr;
    std::uint8_t* scale_codes = nullptr;
    float* global_scale = nullptr;
};

// Second level of a tensor whose largest finite tile amax is `amax` (NVIDIA, 2509.25149, appendix
// B, in TransformerEngine's order): encode = (448 * max) / amax, at most FLT_MAX, 1 for amax = 0;
// decode = 1 / encode.
struct SecondLevel {
    float encode = 1.0f, decode = 1.0f;
};
SecondLevel second_level_scale(const ElementFormat& element, float amax);

// How the elements of one tile are scaled. `amax_bits` is the largest magnitude in the tile as
// float bits; anything from Inf's bits up marks a tile that holds NaN or Inf.
//   FP32, E8M0   y = x / factor         UE4M3   y = clamp(x * factor, +-max)
struct TileScale {
    float factor = 1.0f;    // divisor, or multiplier for UE4M3
    float scale = 1.0f;     // what is stored; NaN marks the tile
    std::uint8_t code = 0;  // code of `scale`; unused for FP32
    bool finite = true;
};
TileScale tile_scale(const QuantSpec& spec, std::uint32_t amax_bits, const SecondLevel& level);

// The one definition of quantisation: scalar, slow, obviously right. Every kernel is compared with
// it bit by bit. Per tile, in float32 with subnormals kept, whatever the mode of the calling
// thread:
//   FP32   scale = amax / max; code = encode(x / scale)                             (value q *
//   scale) E8M0   scale by the rule; code = encode(x / scale)                              (value q
//   * scale) UE4M3  scale = RNE_E4M3(min((amax / max) * encode, 448)), r = min(1 / (scale *
//   decode), FLT_MAX),
//          code = encode(clamp(x * r, +-max))                            (value (q * scale) *
//          decode)
// with encode = decode = 1 where there is no second level.
// Corners: a zero tile has scale 1 (E8M0: byte 0; UE4M3: code 0) and exact zeros; a tile with NaN
// or Inf has a NaN scale, codes 0, and decodes to NaN; such tiles do not count for the amax of the
// tensor, so that only they are lost; signed zeros are kept. bf16 rounds each element alone: Inf
// and NaN stay what they are. The noise of stochastic rounding for element (r, c) is
// noise_bits16(noise, r * cols + c).
void quantize_reference(const MatrixView& source, const QuantSpec& spec, const NoiseAddress& noise,
                        const PackedView& packed);

// Inverse: out (rows x cols, contiguous) receives code value * scale [* global scale] in float32.
void dequantize_reference(const PackedView& packed, const QuantSpec& spec, std::int64_t rows,
                          std::int64_t cols, float* out);

}  // namespace subbyte::formats
