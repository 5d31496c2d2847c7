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

// Some codes of a row. Of `whole` ones none lies behind the end: known when this is compiled, and
// the decoder needs no masks.
template <bool kWhole, class Decode>
inline I decode_some(const Decode& decode, const CodeRow& row, std::int64_t col, std::int64_t k) {
    return decode(row, col, kWhole ? col + kChunk : k);
}

// Panel of A: the rows one after the other, chunk by chunk. `sums(col, row, carriers)` sees each.
template <class Decode, class Sums>
void pack_rows(const CodeRows& source, std::int64_t first, std::uint8_t* data, const Sums& sums) {
    constexpr int kVectors = kChunk / Decode::kCodes;
    const Decode decode(source.values);
    const SomeRows<kTileRows> rows(source, first);
    const auto pack_chunk = [&]<bool kWhole>(std::int64_t col) {
        for (int i = 0; i < kTileRows; ++i) {
            I carriers[kVectors];
            for (int v = 0; v < kVectors; ++v) {
                carriers[v] = kWhole || i < rows.count
                                  ? decode_some<kWhole>(decode, rows.row[i],
                                                        col + v * Decode::kCodes, source.k)
                                  : _mm512_setzero_si512();
                _mm512_store_si512(data, carriers[v]);
                data += 64;
            }
            sums(col, i, carriers);
        }
    };
    const std::int64_t whole = rows.count == kTileRows ? source.k / kChunk * kChunk : 0;
    for (std::int64_t col = 0; col < whole; col += kChunk)
        pack_chunk.template operator()<true>(col);
    for (std::int64_t col = whole; col < source.k; col += kChunk) {
        pack_chunk.template operator()<false>(col);
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
        const auto pack_chunk = [&]<bool kWhole>(std::int64_t col) {
            for (int v = 0; v < kVectors; ++v) {
                I words[kLanes];
                for (int i = 0; i < kLanes; ++i) {
                    words[i] = kWhole || i < rows.count
                                   ? decode_some<kWhole>(decode, rows.row[i],
                                                         col + v * Decode::kCodes, source.k)
                                   : _mm512_setzero_si512();
                }
                transpose_square(words);
                for (int i = 0; i < kLanes; ++i) {
                    _mm512_store_si512(out, xor_(words[i], flip));
                    out += kTileVectors * 64;
                }
            }
        };
        const std::int64_t whole = rows.count == kLanes ? source.k / kChunk * kChunk : 0;
        for (std::int64_t col = 0; col < whole; col += kChunk) {
            pack_chunk.template operator()<true>(col);
        }
        for (std::int64_t col = whole; col < source.k; col += kChunk) {
            pack_chunk.template operator()<false>(col);
        }
    }
}

using Accumulators = F[kTileRows][kTileVectors];

// Calls body(i, j) for the vectors of a tile.
template <class Body>
inline void for_vectors(const Body& body) {
#pragma GCC unroll 6
    for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kTileVectors; ++j) body(i, j);
    }
}

// What D holds is on its way from memory while the tile is computed.
inline void load_tile(const TileArgs& t, Accumulators& acc) {
    for_vectors([&](int i, int j) {
        float* const d = t.d + i * t.d_stride + j * kLanes;
        acc[i][j] = t.accumulate ? load(d) : set(0.0f);
        __builtin_prefetch(d, 1);
    });
}

inline void store_tile(const TileArgs& t, const Accumulators& acc) {
    const F factor = set(t.factor);
    const auto store_with = [&](const auto& finish) {
        for_vectors([&](int i, int j) {
            float* const d = t.d + i * t.d_stride + j * kLanes;
            store(d, finish(d, acc[i][j]));
        });
    };
    if (t.add) {
        store_with([&](const float* d, F sum) { return add(load(d), mul(sum, factor)); });
    } else if (t.factor != 1.0f) {
        store_with([&](const float*, F sum) { return mul(sum, factor); });
    } else {
        store_with([](const float*, F sum) { return sum; });
    }
}

// The dot products stay where they are written: GCC 12 copies each sum twice when it may move them.
inline I broadcast(const std::int32_t* p) {
    I r;
    asm volatile("vpbroadcastd %1, %0" : "=v"(r) : "m"(*p));
    return r;
}

// How the sums of a block get their scales: add(sum, a_scales, b_scales, acc), the sums in float32.
template <F (*kProduct)(F, F)>
struct EachScaled {
    static void add(const Accumulators& sum, const float* a_scales, const float* b_scales,
                    Accumulators& acc) {
        const F columns[kTileVectors] = {load(b_scales), load(b_scales + kLanes)};
        for_vectors([&](int i, int j) {
            acc[i][j] = mul_add(sum[i][j], kProduct(set(a_scales[i]), columns[j]), acc[i][j]);
        });
    }
};
inline F product(F row, F column) { return mul(row, column); }
inline F sum_of_bits(F row, F column) { return floats(add(bits(row), bits(column))); }

struct RowsScaled {  // TileScales::kEvenB: one product per row
    static void add(const Accumulators& sum, const float* a_scales, const float* b_scales,
                    Accumulators& acc) {
        float rows[kTileRows];
        for (int i = 0; i < kTileRows; ++i) rows[i] = a_scales[i] * b_scales[0];
        for_vectors([&](int i, int j) { acc[i][j] = mul_add(sum[i][j], set(rows[i]), acc[i][j]); });
    }
};

struct Unscaled {  // TileScales::kOnes
    static void add(const Accumulators& sum, const float*, const float*, Accumulators& acc) {
        for_vectors([&](int i, int j) { acc[i][j] = kernels::add(sum[i][j], acc[i][j]); });
    }
};

// In place: has the next panel of A on its way from memory, a part with each tile of this one.
inline void fetch_next(const TileArgs& t, std::int64_t tile) {
    constexpr std::int64_t kLine = 64;
    const std::int64_t lines = (2 * t.k + kLine - 1) / kLine;  // of a row, 16-bit codes
    for (std::int64_t line = lines * tile / t.tiles; line < lines * (tile + 1) / t.tiles; ++line) {
        for (const std::int64_t row : t.a_rows) {
            __builtin_prefetch(t.a + t.a_next + row + line * kLine);
        }
    }
}

// Tiles, k outside: the sums of a block and the scaled sums live in registers together.
// Dot: Sum, kWords (of a chunk), start(sums, row), next(sums), dot(sum, a, b), to_float(sum).
// kInPlace: the rows of A lie where they are, t.a_rows.
template <class Dot, int kWords, class Scales, bool kInPlace = false>
void multiply_blocks(const TileArgs& first) {
    constexpr int kPerChunk = Dot::kWords / kWords;
    // Panels hold zeros behind the end: the last block runs to the end of a step.
    constexpr int kStep = 4;
    TileArgs t = first;
    for (std::int64_t tile = 0; tile < t.tiles; ++tile, t.next(kTileCols)) {
        Accumulators acc;
        load_tile(t, acc);
        if constexpr (kInPlace) {
            if (t.a_next != 0) fetch_next(first, tile);
        }
        const auto* b = reinterpret_cast<const std::int32_t*>(t.b);
        const float *a_scales = t.a_scales, *b_scales = t.b_scales;
        const std::int32_t* sums = t.a_sums;
        std::int64_t left = (t.k * Dot::kWords + kChunk - 1) / kChunk;
        for (std::int64_t q = 0; left > 0; ++q, left -= kWords) {
            constexpr int kPanelWords = (kInPlace ? 1 : kTileRows) * Dot::kWords;  // of a chunk
            const std::int32_t* a = reinterpret_cast<const std::int32_t*>(t.a) +
                                    q / kPerChunk * kPanelWords + q % kPerChunk * kWords;
            const std::int32_t* rows[kTileRows];
            if constexpr (kInPlace) {
#pragma GCC unroll 6
                for (int i = 0; i < kTileRows; ++i) {
                    rows[i] = reinterpret_cast<const std::int32_t*>(
                        reinterpret_cast<const std::uint8_t*>(a) + t.a_rows[i]);
                }
            }
            typename Dot::Sum sum[kTileRows][kTileVectors];
            for_vectors([&](int i, int j) { sum[i][j] = Dot::start(sums, i); });
            const std::int64_t steps =
                kWords <= 8 ? kWords / kStep
                            : (std::min<std::int64_t>(kWords, left) + kStep - 1) / kStep;
            for (std::int64_t s = 0; s < steps; ++s) {
#pragma GCC unroll 4
                for (int w = 0; w < kStep; ++w) {
                    const I b0 = _mm512_load_si512(b), b1 = _mm512_load_si512(b + kLanes);
#pragma GCC unroll 6
                    for (int i = 0; i < kTileRows; ++i) {
                        const I word =
                            broadcast(kInPlace ? rows[i] + s * kStep + w : a + i * Dot::kWords);
                        sum[i][0] = Dot::dot(sum[i][0], word, b0);
                        sum[i][1] = Dot::dot(sum[i][1], word, b1);
                    }
                    if constexpr (!kInPlace) ++a;
                    b += kTileCols;
                }
            }
            Accumulators floats_of;
            for_vectors([&](int i, int j) { floats_of[i][j] = Dot::to_float(sum[i][j]); });
            Scales::add(floats_of, a_scales, b_scales, acc);
            a_scales += kTileRows;
            b_scales += kTileCols;
            sums = Dot::next(sums);
        }
        store_tile(t, acc);
    }
}

}  // namespace
}  // namespace subbyte::kernels
