// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "subbyte/core/philox.h"
#include "subbyte/formats/hadamard.h"
#include "subbyte/formats/quantize_reference.h"
#include "subbyte/formats/tile_scale.h"

namespace subbyte::kernels {

// How the elements of a tile are scaled before they are rounded. `kDivide` is x / scale;
// `kDivideByReciprocal` gives the same bits with multiply-adds where the scale is far from the
// limits of float32 (see encode-inl.h). `kMultiplyThreeQuarters` is (x * 3/4) * reciprocal.
// `kZero`: the tile holds NaN or Inf, all codes are 0.
enum class Scaling : std::int32_t {
    kZero,
    kMultiply,
    kMultiplyThreeQuarters,
    kDivide,
    kDivideByReciprocal
};

// The scales of neighbouring tiles, one entry each; room for `count` rounded up to 16, and 16 more.
struct TileFactors {
    float* scale;           // FP32: what is stored, and the divisor
    float* reciprocal;      // multiplier; 1 / scale rounded to nearest for kDivideByReciprocal
    float* reciprocal_low;  // 1 / scale - reciprocal
    Scaling* scaling;
    std::uint8_t* codes;  // E8M0, UE4M3: what is stored

    TileFactors from(std::int64_t tile) const {
        return {scale + tile, reciprocal + tile, reciprocal_low + tile, scaling + tile,
                codes + tile};
    }
};

// What the scale of a tile depends on besides its amax.
struct ScaleProblem {
    formats::ScaleFormat format;
    formats::ScaleRule rule;
    float max;  // of the element
    int emax;
    int mantissa_digits;  // that ScaleRule::kEven rounds to
    formats::SecondLevel level;
    float amax_factor = 1.0f;     // head room of a ue scale
    bool three_quarters = false;  // head room under e8m0
    bool te_b = false;            // ScaleOrder::kTeB
    float raise = 1.0f;           // of the wish that becomes a ue scale
};

// A Hadamard transform with its signs; `flips` holds the sign bit of each position of a group, as
// float bits.
struct RowRotation {
    int size = 0;
    formats::SignBits signs{};
    std::uint32_t flips[128] = {};
};
RowRotation row_rotation(const formats::Rotation& rotation, const formats::SignBits& signs);

// A stretch of one row: columns [begin, end) of a matrix whose tiles are `tile_cols` wide. Pointers
// to elements point at column `begin`; pointers to tiles at the tile that holds it.
struct RowSpan {
    std::int64_t begin = 0, end = 0;
    std::int64_t tile_cols = 1;
};

// Tiles of `rows` rows: entry t * rows + r is the t-th of row r. Narrow ones are 16 or 32 wide.
struct DownTiles {
    TileFactors factors;
    std::int64_t tile_cols;
};

// Where the noise of a matrix lies: the block of element (0, 0), and blocks from row to row.
struct NoiseRows {
    const NoiseAddress& address;
    std::uint64_t first, stride;
};

// The inner loops of quantisation and its inverse for one instruction set. Everything around them
// (tiling, scales, threads) is shared, see tiled.h.
struct RowOps {
    // amax[i] = max(amax[i], largest magnitude in tile i of the span), as float bits.
    void (*amax)(const float* x, const RowSpan& span, std::uint32_t* amax);

    // The same down a transposed source: amax[i] = max(amax[i], |source[c * stride + i]| for c <
    // cols).
    void (*amax_columns)(const float* source, std::int64_t stride, std::int64_t rows,
                         std::int64_t cols, std::uint32_t* amax);

    // Scales of `count` tiles from their amax bits; the numbers of formats::tile_scale().
    void (*scales)(const ScaleProblem& problem, const std::uint32_t* amax, std::int64_t count,
                   const TileFactors& tiles);

    // One code per byte, by element format (element_index) and rounding (rounding_index). Noise:
    // one word per element. Null: stochastic rounding of logarithms and tables.
    using Encode = void (*)(const float* x, const RowSpan& span, const TileFactors& tiles,
                            const std::uint16_t* noise, std::uint8_t* codes);
    using Encodes = std::array<Encode, 7>;
    std::array<Encodes, 16> encode;

    // Packed codes of a transposed source, whose values are not turned over: element (r, c) is
    // source[c * stride + r]; rows are `codes_stride` bytes apart. `rows` is a multiple of 16,
    // `cols` one of 128. By element (e4m3, e5m2, e2m1, int8, int4) and rounding (nearest even,
    // stochastic with 16 bits).
    using EncodeDown = void (*)(const float* source, std::int64_t stride, std::int64_t rows,
                                std::int64_t cols, const DownTiles& tiles, const NoiseRows& noise,
                                std::uint8_t* codes, std::int64_t codes_stride);
    std::array<std::array<EncodeDown, 2>, 5> encode_down;    // one tile per row, or a part of it:
                                                             // all kDivideByReciprocal
    std::array<std::array<EncodeDown, 2>, 5> encode_narrow;  // narrow tiles, all kMultiply

    // The same for the IEEE conversion to bf16, to nearest even; `cols` a multiple of 32.
    void (*encode_bf16_down)(const float* source, std::int64_t stride, std::int64_t rows,
                             std::int64_t cols, std::uint8_t* codes, std::int64_t codes_stride);

    // Bytes with one 4-bit code each to two codes per byte, first one low. Of an odd count the last
    // high nibble is 0.
    void (*pack_nibbles)(const std::uint8_t* codes, std::int64_t count, std::uint8_t* packed);

    // IEEE conversion to bf16; noise == nullptr: nearest even.
    void (*encode_bf16)(const float* x, std::int64_t count, const std::uint16_t* noise,
                        std::uint8_t* codes);

    // 16-bit noise of elements [8 * first_block, 8 * (first_block + blocks)); `out` has room for
    // `blocks` rounded up to a multiple of 16.
    void (*noise)(const NoiseAddress& address, std::uint64_t first_block, std::int64_t blocks,
                  std::uint16_t* out);

    // target[r * target_stride + c] = source[c * source_stride + r], rows x cols of the target.
    void (*transpose)(const float* source, std::int64_t source_stride, std::int64_t rows,
                      std::int64_t cols, float* target, std::int64_t target_stride);

    // Transforms a row of `cols` values, whole groups but for the last, in place; the bits of
    // formats::rotate_row() and rotate_row_back().
    void (*rotate)(float* x, std::int64_t cols, const RowRotation& rotation, bool back);

    // out = (code value * scale of its tile) * global. `row` is the whole row of codes; 6-bit codes
    // one per byte.
    using Decode = void (*)(const std::uint8_t* row, const RowSpan& span, const float* scales,
                            float global, float* out);
    Decode decode[16];

    void (*decode_bf16)(const std::uint8_t* codes, std::int64_t count, float* out);
};

// Place of a scaled element format in RowOps::encode and RowOps::decode: e4m3, e5m2, e2m1, int8,
// int4, e2m3, e3m2, e3m4, mxint8, then logarithms and tables; -1 for the elements that only the
// reference knows.
int element_index(const formats::ElementFormat& element);

// Place of a rounding in RowOps::encode: nearest even, stochastic with 16 bits and with 8, nearest
// with ties away from zero, toward zero, up, down; -1 for those that only the reference knows.
int rounding_index(const formats::QuantSpec& spec);

const RowOps& avx2_row_ops();
const RowOps& avx512_row_ops();

}  // namespace subbyte::kernels
