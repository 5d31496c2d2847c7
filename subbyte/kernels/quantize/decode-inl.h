// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Codes back to floats.
// Written once in the vocabulary of simd/*-inl.h, which must be included before; internal linkage,
// so that each instruction set gets its own copy.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "subbyte/kernels/quantize/code_cells.h"
#include "subbyte/kernels/quantize/spans-inl.h"

namespace subbyte::kernels {
namespace {

// The values of all codes of E: constants, or those of the reference.
template <class E>
inline const float* code_values_of() {
    if constexpr (kIsTable<E>) {
        static std::atomic<const float*> known{nullptr};
        return kept(known, [] { return decoded_codes(E::kName); });
    } else {
        return E::kValues;
    }
}

template <class E>
inline F decode_bytes(const std::uint8_t* codes) {
    if constexpr (kIsTable<E>) {
        const auto* const table = reinterpret_cast<const std::uint32_t*>(code_values_of<E>());
        return floats(gather<1>(table, load_bytes(codes)));
    } else if constexpr (E::kInteger) {
        const F integer = int8_to_float(codes);
        if constexpr (E::kUnit == 1.0f) return integer;
        return mul(integer, set(E::kUnit));
    } else if constexpr (E::kBits == 6) {
        // Shifted under fp16's exponent, the number times 2^(kBias - 15).
        const Half pairs = load_byte_pairs(codes);
        const Half sign = half_shift_left<10>(half_and(pairs, half_set(0x20)));
        const Half low = half_and(pairs, half_set(0x1F));
        const Half half = half_or(sign, half_shift_left<10 - E::kMantissa>(low));
        return mul(half_to_float(half), set(static_cast<float>(1 << (15 - E::kBias))));
    } else if constexpr (E::kMantissa == 2) {
        return half_to_float(
            half_shift_left<8>(load_byte_pairs(codes)));  // e5m2: upper half of fp16
    } else if constexpr (E::kMantissa == 4) {
        // e3m4 two bits lower in fp16 is the number times 2^-12; the top exponent stays on top.
        const Half pairs = load_byte_pairs(codes);
        const Half low = half_and(pairs, half_set(0x7F));
        const Half sign = half_shift_left<8>(half_and(pairs, half_set(0x80)));
        const Half special =
            half_and(half_equal(half_and(low, half_set(0x70)), half_set(0x70)), half_set(0x7C00));
        const Half half = half_or(half_or(sign, special), half_shift_left<6>(low));
        return mul(half_to_float(half), set(4096.0f));
    } else {
        // e4m3 one bit lower in fp16 is the number times 2^-8; code 7f alone is NaN.
        const Half pairs = load_byte_pairs(codes);
        const Half low = half_and(pairs, half_set(0x7F));
        const Half sign = half_shift_left<8>(half_and(pairs, half_set(0x80)));
        const Half nan = half_and(half_equal(low, half_set(0x7F)), half_set(0x7E00));
        const Half half = half_or(half_or(sign, nan), half_shift_left<7>(low));
        return mul(half_to_float(half), set(256.0f));
    }
}

// (value * scale) * global of `count` codes from column `col` of a row. 6-bit codes are given one
// per byte.
template <class E>
inline void decode_tile(const std::uint8_t* row, std::int64_t col, std::int64_t count, float scale,
                        float global, float* out) {
    const F s = set(scale), g = set(global);
    std::int64_t c = 0;
    if constexpr (E::kBits == 4) {
        const float* const values = code_values_of<E>();
        const NibbleTable table(values);
        if (col % 2 != 0 && count > 0) {
            out[c++] = (values[row[col / 2] >> 4] * scale) * global;
        }
        const std::uint8_t* const codes = row + (col + c) / 2;
        const std::int64_t start = c;
#pragma GCC unroll 4
        for (; c + kLanes <= count; c += kLanes) {
            store(out + c, mul(mul(table(spread_nibbles(codes + (c - start) / 2)), s), g));
        }
        if (c < count) {
            std::uint8_t tail[kLanes] = {};
            std::memcpy(tail, codes + (c - start) / 2,
                        static_cast<std::size_t>((count - c + 1) / 2));
            store_first(out + c, mul(mul(table(spread_nibbles(tail)), s), g), count - c);
        }
    } else {
        const std::uint8_t* const codes = row + col;
#pragma GCC unroll 4
        for (; c + kLanes <= count; c += kLanes) {
            store(out + c, mul(mul(decode_bytes<E>(codes + c), s), g));
        }
        if (c < count) {
            std::uint8_t tail[kLanes] = {};
            std::memcpy(tail, codes + c, static_cast<std::size_t>(count - c));
            store_first(out + c, mul(mul(decode_bytes<E>(tail), s), g), count - c);
        }
    }
}

template <class E>
void decode_row(const std::uint8_t* row, const RowSpan& span, const float* scales, float global,
                float* out) {
    for_tiles(span, [&](std::int64_t tile, std::int64_t begin, std::int64_t end) {
        decode_tile<E>(row, span.begin + begin, end - begin, scales[tile], global, out + begin);
    });
}

void decode_bf16_row(const std::uint8_t* codes, std::int64_t count, float* out) {
    std::int64_t c = 0;
    for (; c + kLanes <= count; c += kLanes) {
        store(out + c, floats(shift_left<16>(load_words(codes + 2 * c))));
    }
    if (c < count) {
        std::uint8_t tail[2 * kLanes] = {};
        std::memcpy(tail, codes + 2 * c, static_cast<std::size_t>(2 * (count - c)));
        store_first(out + c, floats(shift_left<16>(load_words(tail))), count - c);
    }
}

}  // namespace
}  // namespace subbyte::kernels
