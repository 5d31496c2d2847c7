// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// What the AVX2 GEMM kernels share: tiles of 6 x 16, panels of 32-bit words that hold 4 bytes, 2
// int16 or one float, neighbours along K.
//   A  [chunk][row][word]   read by broadcast
//   B  [word][column]       read as vectors
// The sums of one block fill the registers; D itself is the accumulator and stays in the first
// cache.
#pragma once

#include <algorithm>

#include "subbyte/kernels/gemm/decode_avx2-inl.h"

namespace subbyte::kernels {
namespace {

constexpr int kTileRows = 6, kTileVectors = 2, kTileCols = kTileVectors * kLanes;

// The first `count` of kMost rows from `first` on that exist.
template <int kMost>
struct SomeRows {
    std::int64_t count;
    CodeRow row[kMost];
    SomeRows(const CodeRows& source, std::int64_t first) : count(source.rows_from(first, kMost)) {
        for (std::int64_t i = 0; i < count; ++i) row[i] = source.row(first + i);
    }
};

// Panel of A: the rows one after the other, chunk by chunk.
template <class Decode>
void pack_rows(const CodeRows& source, std::int64_t first, std::uint8_t* data) {
    const Decode decode(source.values);
    const SomeRows<kTileRows> rows(source, first);
    for (std::int64_t col = 0; col < source.k; col += kChunk) {
        for (int i = 0; i < kTileRows; ++i) {
            for (std::int64_t c = col; c < col + kChunk; c += Decode::kCodes, data += 32) {
                store_int(data, i < rows.count ? decode(rows.row[i], c, source.k)
                                               : _mm256_setzero_si256());
            }
        }
    }
}

// Panel of B: 8 columns of words at a time, turned over in registers. `each(word, half, words)`
// sees every stored vector.
template <class Decode, class Each>
void pack_columns(const CodeRows& source, std::int64_t first, std::uint8_t* data,
                  const Each& each) {
    const Decode decode(source.values);
    const std::int64_t columns = (source.k + kChunk - 1) / kChunk * kChunk;
    for (int half = 0; half < kTileVectors; ++half) {
        const SomeRows<kLanes> rows(source, first + half * kLanes);
        std::uint8_t* out = data + half * 32;
        std::int64_t word = 0;
        for (std::int64_t col = 0; col < columns; col += Decode::kCodes) {
            I words[kLanes];
            for (int i = 0; i < kLanes; ++i) {
                words[i] =
                    i < rows.count ? decode(rows.row[i], col, source.k) : _mm256_setzero_si256();
            }
            transpose_square(words);
            for (int i = 0; i < kLanes; ++i, ++word) {
                store_int(out, words[i]);
                each(word, half, words[i]);
                out += kTileVectors * 32;
            }
        }
    }
}

// GCC 12 moves all broadcasts of a step to its front and then has too few registers for the sums
// (half the speed); volatile keeps them in their places.
inline I broadcast(const std::int32_t* p) {
    I r;
    asm volatile("vpbroadcastd %1, %0" : "=x"(r) : "m"(*p));
    return r;
}

// Calls body(i, j) for the vectors of a tile.
template <class Body>
inline void for_vectors(const Body& body) {
    for (int i = 0; i < kTileRows; ++i) {
        for (int j = 0; j < kTileVectors; ++j) body(i, j);
    }
}

inline void scale_tile(const TileArgs& t) {
    if (t.factor == 1.0f) return;
    for_vectors([&](int i, int j) {
        float* const d = t.d + i * t.d_stride + j * kLanes;
        store(d, mul(load(d), set(t.factor)));
    });
}

// One tile. Dot: Sum, kWords (of a chunk), start(b_sums), multiply_add(sum, a, b),
// to_float(sum).
template <class Dot, int kWords>
void multiply_tile(const TileArgs& t) {
    using Sum = typename Dot::Sum;
    constexpr int kPerChunk = Dot::kWords / kWords;
    const auto* const a_panel = reinterpret_cast<const std::int32_t*>(t.a);
    const auto* b = reinterpret_cast<const std::int32_t*>(t.b);
    const float *a_scales = t.a_scales, *b_scales = t.b_scales;
    const std::int32_t* sums = t.b_sums;
    std::int64_t left = (t.k * Dot::kWords + kChunk - 1) / kChunk;
    for (std::int64_t q = 0; left > 0; ++q, left -= kWords) {
        const std::int32_t* a =
            a_panel + q / kPerChunk * (kTileRows * Dot::kWords) + q % kPerChunk * kWords;
        const Sum start[kTileVectors] = {Dot::start(sums), Dot::start(sums + kLanes)};
        Sum sum[kTileRows][kTileVectors];
#pragma GCC unroll 6
        for (int i = 0; i < kTileRows; ++i) {
            sum[i][0] = start[0];
            sum[i][1] = start[1];
        }
        // Short blocks run whole: panels hold zeros behind the end.
        const int words =
            kWords <= 8 ? kWords : static_cast<int>(std::min<std::int64_t>(kWords, left));
#pragma GCC unroll 4
        for (int w = 0; w < words; ++w) {
            const I b0 = _mm256_load_si256(reinterpret_cast<const I*>(b));
            const I b1 = _mm256_load_si256(reinterpret_cast<const I*>(b + kLanes));
#pragma GCC unroll 6
            for (int i = 0; i < kTileRows; ++i) {
                const I word = broadcast(a + i * Dot::kWords + w);
                sum[i][0] = Dot::multiply_add(sum[i][0], word, b0);
                sum[i][1] = Dot::multiply_add(sum[i][1], word, b1);
            }
            b += kTileCols;
        }
        // The sums go through memory, so that what follows asks for no registers in the loop.
        alignas(32) Sum stored[kTileRows][kTileVectors];
#pragma GCC unroll 6
        for (int i = 0; i < kTileRows; ++i) {
            stored[i][0] = sum[i][0];
            stored[i][1] = sum[i][1];
        }
        asm volatile("" : "+m"(stored)::"memory");
        const bool fresh = q == 0 && !t.accumulate;
#pragma GCC unroll 6
        for (int i = 0; i < kTileRows; ++i) {
            const F row = set(a_scales[i]);
#pragma GCC unroll 2
            for (int j = 0; j < kTileVectors; ++j) {
                float* const d = t.d + i * t.d_stride + j * kLanes;
                store(d, mul_add(Dot::to_float(stored[i][j]), mul(row, load(b_scales + j * kLanes)),
                                 fresh ? set(0.0f) : load(d)));
            }
        }
        a_scales += kTileRows;
        b_scales += kTileCols;
        if constexpr (Dot::kColumnSums) sums += kTileCols;
    }
    scale_tile(t);
}

template <class Dot, int kWords>
void multiply_blocks(const TileArgs& tiles) {
    TileArgs t = tiles;
    for (std::int64_t tile = 0; tile < t.tiles; ++tile, t.next(kTileCols)) {
        // What D holds is on its way from memory while the tile is computed.
        for (int i = 0; i < kTileRows; ++i) __builtin_prefetch(t.d + i * t.d_stride, 1);
        if (!t.add) {
            multiply_tile<Dot, kWords>(t);
            continue;
        }
        alignas(32) float product[kTileRows * kTileCols];
        TileArgs beside = t;
        beside.d = product;
        beside.d_stride = kTileCols;
        multiply_tile<Dot, kWords>(beside);
        for_vectors([&](int i, int j) {
            float* const d = t.d + i * t.d_stride + j * kLanes;
            store(d, add(load(d), load(product + i * kTileCols + j * kLanes)));
        });
    }
}

}  // namespace
}  // namespace subbyte::kernels
