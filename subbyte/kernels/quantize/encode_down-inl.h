// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Encoding down the columns of a source: lanes are rows of the packed copy. Codes that are
// neighbours there come from values above each other; as many as fill 32 bits are put together in
// their lane, and only these words are turned over.
// Written once in the vocabulary of simd/*-inl.h, which must be included before; internal linkage,
// so that each instruction set gets its own copy.
#pragma once

#include <cstdint>
#include <utility>

#include "subbyte/kernels/quantize/encode-inl.h"
#include "subbyte/kernels/quantize/noise-inl.h"

namespace subbyte::kernels {
namespace {

// The scales of kLanes rows: the quotient of a magnitude, or its product where tiles are narrow.
template <bool kNarrow>
struct LaneScales {
    F scale, reciprocal, reciprocal_low;
    LaneScales(const TileFactors& tiles, std::int64_t entry)
        : scale(load(tiles.scale + entry)),
          reciprocal(load(tiles.reciprocal + entry)),
          reciprocal_low(load(tiles.reciprocal_low + entry)) {}
    F operator()(F a) const { return divide(a, scale, reciprocal, reciprocal_low); }
};
template <>
struct LaneScales<true> {
    F factor;
    LaneScales(const TileFactors& tiles, std::int64_t entry)
        : factor(load(tiles.reciprocal + entry)) {}
    F operator()(F a) const { return mul(a, factor); }
};

// Codes of eight values above each other, to one or two words. `noise`: noise_words().
template <class E, Round kRound, class Scales, int... kStep>
inline void encode_eight(const float* source, std::int64_t stride, const Scales& scales,
                         const I noise[4], I* words, std::integer_sequence<int, kStep...>) {
    constexpr int kPerWord = 32 / E::kBits;
    const auto encode = [&](F value, I noise_bits16) {
        const F a = floats(and_(bits(value), set(kMagnitude)));
        return encode_magnitude<E, noise_bits(kRound)>(scales(a), bits(value), noise_bits16);
    };
    const auto step = [&]<int i>() {
        I bits16 = set(0u);
        if constexpr (kRound == Round::kNoise16) {
            bits16 = i % 2 == 0 ? and_(noise[i / 2], set(0xFFFFu)) : shift_right<16>(noise[i / 2]);
        }
        const I code = encode(load(source + i * stride), bits16);
        I& word = words[i / kPerWord];
        word = i % kPerWord == 0 ? code : or_(word, shift_left<E::kBits*(i % kPerWord)>(code));
    };
    (step.template operator()<kStep>(), ...);
}

template <class E, Round kRound, bool kNarrow>
void encode_down(const float* source, std::int64_t stride, std::int64_t rows, std::int64_t cols,
                 const DownTiles& tiles, const NoiseRows& noise, std::uint8_t* codes,
                 std::int64_t codes_stride) {
    constexpr int kWordsOfEight = E::kBits / 4;
    constexpr std::int64_t kGroup = kLanes * 32 / E::kBits;  // columns of kLanes words
    std::uint64_t row_blocks[kLanes];
    for (int i = 0; i < kLanes; ++i) row_blocks[i] = static_cast<std::uint64_t>(i) * noise.stride;
    const auto* const blocks = reinterpret_cast<const std::uint32_t*>(row_blocks);
    const I upper = load_int(blocks), lower = load_int(blocks + kLanes);
    PhiloxKeys keys(noise.address);
    asm volatile("" : "+m"(keys));  // GCC 12 would broadcast each key where it is used
    const int tile_shift = tiles.tile_cols == 16 ? 4 : 5;
    for (std::int64_t r = 0; r < rows; r += kLanes) {
        LaneScales<kNarrow> scales(tiles.factors, r);
        for (std::int64_t group = 0; group < cols; group += kGroup) {
            I words[kLanes];
            for (int w = 0; w < kLanes; w += kWordsOfEight) {
                const std::int64_t c = group + w * (32 / E::kBits);
                if constexpr (kNarrow) {
                    scales = LaneScales<true>(tiles.factors, (c >> tile_shift) * rows + r);
                }
                I drawn[4] = {};
                if constexpr (kRound == Round::kNoise16) {
                    const I first =
                        set64(noise.first + static_cast<std::uint64_t>(r) * noise.stride +
                              static_cast<std::uint64_t>(c / 8));
                    noise_words(noise.address, keys, add64(first, upper), add64(first, lower),
                                drawn);
                }
                encode_eight<E, kRound>(source + c * stride + r, stride, scales, drawn, words + w,
                                        std::make_integer_sequence<int, 8>{});
            }
            transpose_square(words);
            for (int i = 0; i < kLanes; ++i) {
                store_int(codes + (r + i) * codes_stride + group * E::kBits / 8, words[i]);
            }
        }
    }
}

void encode_bf16_down(const float* source, std::int64_t stride, std::int64_t rows,
                      std::int64_t cols, std::uint8_t* codes, std::int64_t codes_stride) {
    const auto encode = [](const float* x) { return encode_bf16_lanes<false>(load(x), set(0u)); };
    for (std::int64_t r = 0; r < rows; r += kLanes) {
        for (std::int64_t group = 0; group < cols; group += 2 * kLanes) {
            I words[kLanes];
            for (int w = 0; w < kLanes; ++w) {
                const float* const x = source + (group + 2 * w) * stride + r;
                words[w] = or_(encode(x), shift_left<16>(encode(x + stride)));
            }
            transpose_square(words);
            for (int i = 0; i < kLanes; ++i) {
                store_int(codes + (r + i) * codes_stride + 2 * group, words[i]);
            }
        }
    }
}

}  // namespace
}  // namespace subbyte::kernels
