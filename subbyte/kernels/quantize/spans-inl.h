// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Element formats as compile-time constants, walks over tiles, amax and transposed copies.
// Written once in the vocabulary of simd/*-inl.h, which must be included before; internal linkage,
// so that each instruction set gets its own copy.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "subbyte/kernels/quantize/row_ops.h"

namespace subbyte::kernels {
namespace {

constexpr std::uint32_t kMagnitude = 0x7FFFFFFF;
constexpr std::uint32_t kInfinity = 0x7F800000;  // also the mask of the exponent

struct E4m3 {
    static constexpr bool kInteger = false;
    static constexpr int kBits = 8, kMantissa = 3, kBias = 7;
    static constexpr float kMax = 448.0f;
};
struct E5m2 {
    static constexpr bool kInteger = false;
    static constexpr int kBits = 8, kMantissa = 2, kBias = 15;
    static constexpr float kMax = 57344.0f;
};
struct E3m4 {  // top exponent: Inf and NaN
    static constexpr bool kInteger = false;
    static constexpr int kBits = 8, kMantissa = 4, kBias = 3;
    static constexpr float kMax = 15.5f;
};
struct E2m3 {
    static constexpr bool kInteger = false;
    static constexpr int kBits = 6, kMantissa = 3, kBias = 1;
    static constexpr float kMax = 7.5f;
};
struct E3m2 {
    static constexpr bool kInteger = false;
    static constexpr int kBits = 6, kMantissa = 2, kBias = 3;
    static constexpr float kMax = 28.0f;
};
struct E2m1 {
    static constexpr bool kInteger = false;
    static constexpr int kBits = 4, kMantissa = 1, kBias = 1;
    static constexpr float kMax = 6.0f;
    static constexpr float kValues[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                          -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
};
struct Int8 {
    static constexpr bool kInteger = true;
    static constexpr int kBits = 8;
    static constexpr float kMax = 127.0f, kUnit = 1.0f;
};
struct MxInt8 {  // counts in 1/64
    static constexpr bool kInteger = true;
    static constexpr int kBits = 8;
    static constexpr float kMax = 127.0f / 64, kUnit = 1.0f / 64;
};
struct Int4 {
    static constexpr bool kInteger = true;
    static constexpr int kBits = 4;
    static constexpr float kMax = 7.0f, kUnit = 1.0f;
    static constexpr float kValues[16] = {0.0f,  1.0f,  2.0f,  3.0f,  4.0f,  5.0f,  6.0f,  7.0f,
                                          -8.0f, -7.0f, -6.0f, -5.0f, -4.0f, -3.0f, -2.0f, -1.0f};
};

// Logarithms and tables of values: code_cells.h finds their codes.
struct TableElement {
    static constexpr bool kInteger = false;
};
struct Nf4 : TableElement {
    static constexpr int kBits = 4;
    static constexpr std::string_view kName = "nf4";
};
struct Lns8 : TableElement {
    static constexpr int kBits = 8;
    static constexpr std::string_view kName = "lns8";
};
struct Lns4 : TableElement {
    static constexpr int kBits = 4;
    static constexpr std::string_view kName = "lns4";
};
struct Dynamic8 : TableElement {
    static constexpr int kBits = 8;
    static constexpr std::string_view kName = "dynamic8";
};
struct UDynamic8 : TableElement {
    static constexpr int kBits = 8;
    static constexpr std::string_view kName = "udynamic8";
};
struct Dynamic4 : TableElement {
    static constexpr int kBits = 4;
    static constexpr std::string_view kName = "dynamic4";
};
struct ULinear4 : TableElement {
    static constexpr int kBits = 4;
    static constexpr std::string_view kName = "ulinear4";
};
template <class E>
constexpr bool kIsTable = std::is_base_of_v<TableElement, E>;

// What find() gives, known after the first call. A local static with a guard would bring symbols
// of the exception support, which the linker shares between the files of all instruction sets.
template <class T, class Find>
inline const T* kept(std::atomic<const T*>& known, const Find& find) {
    const T* found = known.load(std::memory_order_acquire);
    if (found == nullptr) known.store(found = find(), std::memory_order_release);
    return found;
}

// Scale formats: the sign bit is never set.
struct Ue4m3 {
    static constexpr bool kInteger = false;
    static constexpr int kBits = 8, kMantissa = 3, kBias = 7;
    static constexpr float kMax = 448.0f;
};
struct Ue5m3 {
    static constexpr bool kInteger = false;
    static constexpr int kBits = 9, kMantissa = 3, kBias = 15;
    static constexpr float kMax = 114688.0f;
};
struct Ue5m3h {
    static constexpr bool kInteger = false;
    static constexpr int kBits = 9, kMantissa = 3, kBias = 15;
    static constexpr float kMax = 61440.0f;
};

inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Calls body(tile, first column, end column) for each tile of the span, columns counted from its
// begin.
template <class Body>
inline void for_tiles(const RowSpan& span, Body body) {
    const std::int64_t first = span.begin / span.tile_cols;
    std::int64_t column = span.begin;
    for (std::int64_t tile = first; column < span.end; ++tile) {
        const std::int64_t end = smaller(span.end, (tile + 1) * span.tile_cols);
        body(tile - first, column - span.begin, end - span.begin);
        column = end;
    }
}

// amax of kLanes tiles at once, each `vectors` full vectors wide.
inline I amax_narrow_tiles(const float* x, int vectors) {
    const I magnitude = set(kMagnitude);
    I largest[kLanes];
    for (int tile = 0; tile < kLanes; ++tile) {
        const float* const p = x + static_cast<std::int64_t>(tile) * vectors * kLanes;
        I m = and_(bits(load(p)), magnitude);
        for (int i = 1; i < vectors; ++i) {
            m = max_unsigned(m, and_(bits(load(p + i * kLanes)), magnitude));
        }
        largest[tile] = m;
    }
    transpose_square(largest);
    for (int half = kLanes / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) largest[i] = max_unsigned(largest[i], largest[i + half]);
    }
    return largest[0];
}

void amax_row(const float* x, const RowSpan& span, std::uint32_t* amax) {
    const I magnitude = set(kMagnitude);
    RowSpan rest = span;
    if (span.begin % span.tile_cols == 0 && span.tile_cols % kLanes == 0 &&
        span.tile_cols <= 4 * kLanes) {
        const std::int64_t step = kLanes * span.tile_cols;
        const int vectors = static_cast<int>(span.tile_cols / kLanes);
        for (; rest.end - rest.begin >= step; rest.begin += step, x += step, amax += kLanes) {
            store_int(amax, max_unsigned(load_int(amax), amax_narrow_tiles(x, vectors)));
        }
    }
    for_tiles(rest, [&](std::int64_t tile, std::int64_t begin, std::int64_t end) {
        I a = set(0u), b = set(0u);
        std::int64_t c = begin;
        for (; c + 2 * kLanes <= end; c += 2 * kLanes) {
            a = max_unsigned(a, and_(bits(load(x + c)), magnitude));
            b = max_unsigned(b, and_(bits(load(x + c + kLanes)), magnitude));
        }
        if (c + kLanes <= end) {
            b = max_unsigned(b, and_(bits(load(x + c)), magnitude));
            c += kLanes;
        }
        if (c < end) a = max_unsigned(a, and_(bits(load_first(x + c, end - c)), magnitude));
        const std::uint32_t largest = reduce_max(max_unsigned(a, b));
        if (largest > amax[tile]) amax[tile] = largest;
    });
}

void amax_columns(const float* source, std::int64_t stride, std::int64_t rows, std::int64_t cols,
                  std::uint32_t* amax) {
    const I magnitude = set(kMagnitude);
    constexpr int kAtOnce = 4;
    std::int64_t r = 0;
    for (; r + kAtOnce * kLanes <= rows; r += kAtOnce * kLanes) {
        I m[kAtOnce];
        for (int i = 0; i < kAtOnce; ++i) m[i] = load_int(amax + r + i * kLanes);
        for (std::int64_t c = 0; c < cols; ++c) {
            const float* const p = source + c * stride + r;
            for (int i = 0; i < kAtOnce; ++i) {
                m[i] = max_unsigned(m[i], and_(bits(load(p + i * kLanes)), magnitude));
            }
        }
        for (int i = 0; i < kAtOnce; ++i) store_int(amax + r + i * kLanes, m[i]);
    }
    for (; r < rows; r += kLanes) {
        const std::int64_t n = smaller(kLanes, rows - r);
        I m = bits(load_first(reinterpret_cast<const float*>(amax + r), n));
        for (std::int64_t c = 0; c < cols; ++c) {
            m = max_unsigned(m, and_(bits(load_first(source + c * stride + r, n)), magnitude));
        }
        store_first(reinterpret_cast<float*>(amax + r), floats(m), n);
    }
}

void transpose_rows(const float* source, std::int64_t source_stride, std::int64_t rows,
                    std::int64_t cols, float* target, std::int64_t target_stride) {
    const std::int64_t full_rows = rows - rows % kLanes, full_cols = cols - cols % kLanes;
    for (std::int64_t c = 0; c < full_cols; c += kLanes) {
        for (std::int64_t r = 0; r < full_rows; r += kLanes) {
            I block[kLanes];
            for (int i = 0; i < kLanes; ++i) {
                block[i] = bits(load(source + (c + i) * source_stride + r));
            }
            transpose_square(block);
            for (int i = 0; i < kLanes; ++i) {
                store(target + (r + i) * target_stride + c, floats(block[i]));
            }
        }
    }
    for (std::int64_t c = 0; c < cols; ++c) {
        for (std::int64_t r = c < full_cols ? full_rows : 0; r < rows; ++r) {
            target[r * target_stride + c] = source[c * source_stride + r];
        }
    }
}

}  // namespace
}  // namespace subbyte::kernels
