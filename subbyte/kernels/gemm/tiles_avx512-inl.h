// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// What the AVX-512 GEMM kernels share: tiles of 6 x 32, panels of 32-bit words that hold 4 int8 or
// 2 bfloat16 neighbours along K.
//   A  [chunk][row][word]   read by broadcast
//   B  [word][column]       read as vectors
#pragma once

#include <algorithm>

#include "subbyte/kernels/gemm/decode_avx512-inl.h"

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
template <class Decode, class Sums>
void pack_rows(const CodeRows& source, std::int64_t first, std::uint8_t* data, const Sums& sums) {
    constexpr int kVectors = kChunk / Decode::kCodes;
    const Decode decode(source.values);
    const SomeRows<kTileRows> rows(source, first);
    for (std::int64_t col = 0; col < source.k; col += kChunk) {
        for (int i = 0; i < kTileRows; ++i) {
            I carriers[kVectors];
            for (int v = 0; v < kVectors; ++v) {
                carriers[v] = i < rows.count
                                  ? decode(rows.row[i], col + v * Decode::kCodes, source.k)
                                  : _mm512_setzero_si512();
                _mm512_store_si512(data, carriers[v]);
                data += 64;
            }
            sums(col, i, carriers);
        }
    }
}

// Panel of B: 16 columns of words at a time, turned over in registers. `flip` is xored to the
// carriers.
template <class Decode>
void pack_columns(const CodeRows& source, std::int64_t first, std::uint8_t* data, I flip) {
    constexpr int kVectors = kChunk / Decode::kCodes;
    const Decode decode(source.values);
    for (int half = 0; half < kTileVectors; ++half) {
        const SomeRows<kLanes> rows(source, first + half * kLanes);
        std::uint8_t* out = data + half * 64;
        for (std::int64_t col = 0; col < source.k; col += kChunk) {
            for (int v = 0; v < kVectors; ++v) {
                I words[kLanes];
                for (int i = 0; i < kLanes; ++i) {
                    words[i] = i < rows.count
                                   ? decode(rows.row[i], col + v * Decode::kCodes, source.k)
                                   : _mm512_setzero_si512();
                }
                transpose_square(words);
                for (int i = 0; i < kLanes; ++i) {
                    _mm512_store_si512(out, xor_(words[i], flip));
                    out += kTileVectors * 64;
                }
            }
        }
    }
}

using Accumulators = F[kTileRows][kTileVectors];

inline void load_tile(const TileArgs& t, Accumulators& acc) {
    for (int i = 0; i < kTileRows; ++i) {
        for (int j = 0; j < kTileVectors; ++j) {
            acc[i][j] = t.accumulate ? load(t.d + i * t.d_stride + j * kLanes) : set(0.0f);
        }
    }
}

inline void store_tile(const TileArgs& t, const Accumulators& acc) {
    const F factor = set(t.factor);
    for (int i = 0; i < kTileRows; ++i) {
        for (int j = 0; j < kTileVectors; ++j) {
            store(t.d + i * t.d_stride + j * kLanes, mul(acc[i][j], factor));
        }
    }
}

// The product of two scales.
struct Product {
    static F of(F row, F column) { return mul(row, column); }
};
struct SumOfPowers {  // TileArgs of multiply_powers
    static F of(F row, F column) { return floats(add(bits(row), bits(column))); }
};

// One tile, k outside: the sums of a block and the scaled sums live in registers together.
// Dot: Sum, kWords (of a chunk), start(sums, row), dot(sum, a, b), to_float(sum).
template <class Dot, int kWords, class Scale = Product>
void multiply_blocks(const TileArgs& t) {
    constexpr int kPerChunk = Dot::kWords / kWords;
    Accumulators acc;
    load_tile(t, acc);
    const auto* const a_panel = reinterpret_cast<const std::int32_t*>(t.a);
    const auto* b = reinterpret_cast<const std::int32_t*>(t.b);
    const float *a_scales = t.a_scales, *b_scales = t.b_scales;
    const std::int32_t* sums = t.a_sums;
    std::int64_t left = (t.k * Dot::kWords + kChunk - 1) / kChunk;
    for (std::int64_t q = 0; left > 0; ++q, left -= kWords) {
        const std::int32_t* a =
            a_panel + q / kPerChunk * (kTileRows * Dot::kWords) + q % kPerChunk * kWords;
        typename Dot::Sum sum[kTileRows][kTileVectors];
#pragma GCC unroll 6
        for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
            for (int j = 0; j < kTileVectors; ++j) sum[i][j] = Dot::start(sums, i);
        }
        // Short blocks run whole: panels hold zeros behind the end.
        const int words =
            kWords <= 8 ? kWords : static_cast<int>(std::min<std::int64_t>(kWords, left));
        for (int w = 0; w < words; ++w) {
            const I b0 = _mm512_load_si512(b), b1 = _mm512_load_si512(b + kLanes);
#pragma GCC unroll 6
            for (int i = 0; i < kTileRows; ++i) {
                sum[i][0] = Dot::dot(sum[i][0], a[i * Dot::kWords + w], b0);
                sum[i][1] = Dot::dot(sum[i][1], a[i * Dot::kWords + w], b1);
            }
            b += kTileCols;
        }
        const F scales[kTileVectors] = {load(b_scales), load(b_scales + kLanes)};
#pragma GCC unroll 6
        for (int i = 0; i < kTileRows; ++i) {
            const F row = set(a_scales[i]);
#pragma GCC unroll 2
            for (int j = 0; j < kTileVectors; ++j) {
                acc[i][j] = mul_add(Dot::to_float(sum[i][j]), Scale::of(row, scales[j]), acc[i][j]);
            }
        }
        a_scales += kTileRows;
        b_scales += kTileCols;
        sums = Dot::next(sums);
    }
    store_tile(t, acc);
}

}  // namespace
}  // namespace subbyte::kernels
