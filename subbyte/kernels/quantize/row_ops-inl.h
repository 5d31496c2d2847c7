// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// RowOps written once in the vocabulary of simd/*-inl.h, which must be included before. Everything has
// internal linkage: each instruction set gets its own copy.
#pragma once

#include <cstdint>
#include <cstring>

#include "subbyte/core/philox.h"
#include "subbyte/kernels/quantize/row_ops.h"

namespace subbyte::kernels {
namespace {

constexpr std::uint32_t kMagnitude = 0x7FFFFFFF;
constexpr std::uint32_t kExponent = 0x7F800000;

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
    static constexpr float kMax = 127.0f;
};
struct Int4 {
    static constexpr bool kInteger = true;
    static constexpr int kBits = 4;
    static constexpr float kMax = 7.0f;
    static constexpr float kValues[16] = {0.0f,  1.0f,  2.0f,  3.0f,  4.0f,  5.0f,  6.0f,  7.0f,
                                          -8.0f, -7.0f, -6.0f, -5.0f, -4.0f, -3.0f, -2.0f, -1.0f};
};

inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Calls body(tile, first column, end column) for each tile of the span, columns counted from its begin.
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

void amax_row(const float* x, const RowSpan& span, std::uint32_t* amax) {
    const I magnitude = set(kMagnitude);
    for_tiles(span, [&](std::int64_t tile, std::int64_t begin, std::int64_t end) {
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

// Code of the magnitude y (finite, y >= 0) with the sign of x; the low kBits bits of each lane, the rest
// is 0. Rounding is one float addition: with m = 2^(e + 23 - kMantissa - s), e the exponent of y (not below
// that of the smallest normal number), y + m holds rint(y / step * 2^s) in its low mantissa bits, ties to
// even. s = 16 extra bits make the fraction that stochastic rounding compares with the noise: it carries
// into the code exactly when noise < fraction.
template <class E, bool kStochastic>
inline I encode_magnitude(F y, I x, I noise) {
    y = min(y, set(E::kMax));
    if constexpr (E::kInteger) {
        I code;
        if constexpr (kStochastic) {
            const I w = bits(add(y, set(128.0f)));
            code = and_(shift_right<16>(add(w, xor_(noise, set(0xFFFFu)))), set(0x7Fu));
        } else {
            code = and_(bits(add(y, set(0x1p23f))), set(0x7Fu));
        }
        const I sign = sign_mask(x);
        return and_(sub(xor_(code, sign), sign), set((1u << E::kBits) - 1));
    } else {
        constexpr int kShift = 23 - E::kMantissa;
        constexpr std::uint32_t kMask = (1u << (E::kBits - 1)) - 1;
        constexpr float kSmallestNormal = 1.0f / static_cast<float>(1 << (E::kBias - 1));
        const I exponent = and_(bits(max(y, set(kSmallestNormal))), set(kExponent));
        I code;
        if constexpr (kStochastic) {
            // The exponent field counts from 127, the code's from 1 - kBias; the difference rides on the
            // noise, modulo the bits that the mask keeps.
            constexpr std::uint32_t kOffset =
                ((E::kBias - 128u) << E::kMantissa) & kMask;
            const I m = add(exponent, set(static_cast<std::uint32_t>(kShift - 16) << 23));
            const I w = bits(add(y, floats(m)));
            const I up = xor_(noise, set((kOffset << 16) | 0xFFFFu));
            code = add(shift_right<16>(add(w, up)), shift_right<kShift>(exponent));
        } else {
            // Here it rides on m: an even offset below the rounded bits changes no tie.
            constexpr std::uint32_t kOffset = ((E::kBias - 128u - kShift) << E::kMantissa) & kMask;
            static_assert(kOffset % 2 == 0);
            const I m = add(exponent, set((static_cast<std::uint32_t>(kShift) << 23) + kOffset));
            const I w = bits(add(y, floats(m)));
            code = add(w, shift_right<kShift>(w));
        }
        return and_(merge(set(kMask), code, shift_right<32 - E::kBits>(x)),
                    set((1u << E::kBits) - 1));
    }
}

// |x| scaled as the tile wants it.
//
// kDivideByReciprocal is the correctly rounded a / s: r + r_low is 1 / s to twice the precision, so q is
// within one ulp of the quotient, and with r correctly rounded one more step ends on it (Markstein's
// theorem, e.g. Handbook of Floating-Point Arithmetic, 2nd ed., section 4.7). Scales within 2^-60 .. 2^60
// keep what underflows on the way far below anything that rounding to a code can see.
template <Scaling kScaling>
inline F scale_magnitude(F a, const TileFactor& tile) {
    if constexpr (kScaling == Scaling::kMultiply) return mul(a, set(tile.reciprocal));
    if constexpr (kScaling == Scaling::kDivide) return div(a, set(tile.scale));
    const F r = set(tile.reciprocal);
    const F q = mul_add(a, r, mul(a, set(tile.reciprocal_low)));
    return mul_add(neg_mul_add(q, set(tile.scale), a), r, q);
}

template <class E, bool kStochastic, Scaling kScaling>
inline void encode_tile(const float* x, std::int64_t count, const TileFactor& tile,
                        const std::uint16_t* noise, std::uint8_t* codes) {
    const I magnitude = set(kMagnitude);
    const auto encode = [&](F value, const std::uint16_t* words) {
        const I b = bits(value);
        const F y = scale_magnitude<kScaling>(floats(and_(b, magnitude)), tile);
        return encode_magnitude<E, kStochastic>(y, b, kStochastic ? load_words(words) : set(0u));
    };
    std::int64_t c = 0;
#pragma GCC unroll 4
    for (; c + kLanes <= count; c += kLanes) store_bytes(codes + c, encode(load(x + c), noise + c));
    if (c < count) {
        std::uint8_t tail[kLanes];
        store_bytes(tail, encode(load_first(x + c, count - c), noise + c));
        std::memcpy(codes + c, tail, static_cast<std::size_t>(count - c));
    }
}

template <class E, bool kStochastic>
void encode_row(const float* x, const RowSpan& span, const TileFactor* tiles,
                const std::uint16_t* noise, std::uint8_t* codes) {
    for_tiles(span, [&](std::int64_t index, std::int64_t begin, std::int64_t end) {
        const TileFactor& tile = tiles[index];
        const float* const source = x + begin;
        const std::uint16_t* const words = kStochastic ? noise + begin : nullptr;
        std::uint8_t* const target = codes + begin;
        const std::int64_t count = end - begin;
        switch (tile.scaling) {
            case Scaling::kZero: std::memset(target, 0, static_cast<std::size_t>(count)); break;
            case Scaling::kMultiply:
                encode_tile<E, kStochastic, Scaling::kMultiply>(source, count, tile, words, target);
                break;
            case Scaling::kDivide:
                encode_tile<E, kStochastic, Scaling::kDivide>(source, count, tile, words, target);
                break;
            case Scaling::kDivideByReciprocal:
                encode_tile<E, kStochastic, Scaling::kDivideByReciprocal>(source, count, tile, words,
                                                                          target);
                break;
        }
    });
}

void pack_nibbles_row(const std::uint8_t* codes, std::int64_t count, std::uint8_t* packed) {
    std::int64_t c = 0;
    for (; c + kNibbleStep <= count; c += kNibbleStep) pack_nibble_step(codes + c, packed + c / 2);
    for (; c + 2 <= count; c += 2) {
        packed[c / 2] = static_cast<std::uint8_t>(codes[c] | (codes[c + 1] << 4));
    }
    if (c < count) packed[c / 2] = codes[c];
}

template <bool kStochastic>
inline I encode_bf16_lanes(F value, I noise) {
    const I b = bits(value);
    const I upper = shift_right<16>(b);
    const I up = kStochastic ? xor_(noise, set(0xFFFFu)) : add(and_(upper, set(1u)), set(0x7FFFu));
    const I nan = greater(and_(b, set(kMagnitude)), set(kExponent));
    const I quiet = merge(set(0x8000u), upper, set(0x7FC0u));
    return merge(nan, quiet, shift_right<16>(add(b, up)));
}

template <bool kStochastic>
void encode_bf16_loop(const float* x, std::int64_t count, const std::uint16_t* noise,
                      std::uint8_t* codes) {
    const auto words = [&](std::int64_t c) { return kStochastic ? load_words(noise + c) : set(0u); };
    std::int64_t c = 0;
    for (; c + kLanes <= count; c += kLanes) {
        store_words(codes + 2 * c, encode_bf16_lanes<kStochastic>(load(x + c), words(c)));
    }
    if (c < count) {
        std::uint8_t tail[2 * kLanes];
        store_words(tail, encode_bf16_lanes<kStochastic>(load_first(x + c, count - c), words(c)));
        std::memcpy(codes + 2 * c, tail, static_cast<std::size_t>(2 * (count - c)));
    }
}

void encode_bf16_row(const float* x, std::int64_t count, const std::uint16_t* noise,
                     std::uint8_t* codes) {
    noise == nullptr ? encode_bf16_loop<false>(x, count, noise, codes)
                     : encode_bf16_loop<true>(x, count, noise, codes);
}

// Philox4x32-10 on kLanes blocks at once; the same numbers as noise_block(). The order in which blocks are
// dealt to lanes makes the stores below contiguous.
void noise_row(const NoiseAddress& address, std::uint64_t first_block, std::int64_t blocks,
               std::uint16_t* out) {
    constexpr int kGroups = kLanes / 4;  // 128-bit groups of a vector
    std::uint32_t order[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
        order[lane] = static_cast<std::uint32_t>(kGroups * (lane % 4) + lane / 4);
    }
    const I lane_order = load_int(order);
    const I m0 = set(0xD2511F53u), m1 = set(0xCD9E8D57u);
    for (std::int64_t done = 0; done < blocks; done += kLanes) {
        const std::uint64_t index = first_block + static_cast<std::uint64_t>(done);
        std::uint16_t* const target = out + 8 * done;
        const auto low = static_cast<std::uint32_t>(index);
        if (low > 0xFFFFFFFFu - kLanes) {  // the counter carries inside this vector
            for (int i = 0; i < kLanes; ++i) {
                const PhiloxBlock block = noise_block(address, index + static_cast<std::uint64_t>(i));
                std::memcpy(target + 8 * i, &block, sizeof(block));
            }
            continue;
        }
        I c0 = add(set(low), lane_order);
        I c1 = set(static_cast<std::uint32_t>((index >> 32) & 0xFFFF) |
                   (std::uint32_t{address.role} << 16));
        I c2 = set(address.layer), c3 = set(address.step);
        auto k0 = static_cast<std::uint32_t>(address.seed);
        auto k1 = static_cast<std::uint32_t>(address.seed >> 32);
#pragma GCC unroll 10
        for (int round = 0; round < 10; ++round) {
            I high0, low0, high1, low1;
            multiply_wide(c0, m0, high0, low0);
            multiply_wide(c2, m1, high1, low1);
            c0 = xor3(high1, c1, set(k0));
            c2 = xor3(high0, c3, set(k1));
            c1 = low1;
            c3 = low0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        const I a = unpack_low32(c0, c1), b = unpack_high32(c0, c1);
        const I c = unpack_low32(c2, c3), d = unpack_high32(c2, c3);
        store_int(target, unpack_low64(a, c));
        store_int(target + 2 * kLanes, unpack_high64(a, c));
        store_int(target + 4 * kLanes, unpack_low64(b, d));
        store_int(target + 6 * kLanes, unpack_high64(b, d));
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

template <class E>
inline F decode_bytes(const std::uint8_t* codes) {
    if constexpr (E::kInteger) {
        return int8_to_float(codes);
    } else if constexpr (E::kMantissa == 2) {
        return half_to_float(half_shift_left<8>(load_byte_pairs(codes)));  // e5m2: upper half of fp16
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

// (value * scale) * global of `count` codes from column `col` of a row.
template <class E>
inline void decode_tile(const std::uint8_t* row, std::int64_t col, std::int64_t count, float scale,
                        float global, float* out) {
    const F s = set(scale), g = set(global);
    std::int64_t c = 0;
    if constexpr (E::kBits == 4) {
        const NibbleTable table(E::kValues);
        if (col % 2 != 0 && count > 0) {
            out[c++] = (E::kValues[row[col / 2] >> 4] * scale) * global;
        }
        const std::uint8_t* const codes = row + (col + c) / 2;
        const std::int64_t start = c;
#pragma GCC unroll 4
        for (; c + kLanes <= count; c += kLanes) {
            store(out + c, mul(mul(table(spread_nibbles(codes + (c - start) / 2)), s), g));
        }
        if (c < count) {
            std::uint8_t tail[kLanes] = {};
            std::memcpy(tail, codes + (c - start) / 2, static_cast<std::size_t>((count - c + 1) / 2));
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

constexpr RowOps kRowOps{
    amax_row,
    {{encode_row<E4m3, false>, encode_row<E4m3, true>},
     {encode_row<E5m2, false>, encode_row<E5m2, true>},
     {encode_row<E2m1, false>, encode_row<E2m1, true>},
     {encode_row<Int8, false>, encode_row<Int8, true>},
     {encode_row<Int4, false>, encode_row<Int4, true>}},
    pack_nibbles_row,
    encode_bf16_row,
    noise_row,
    transpose_rows,
    {decode_row<E4m3>, decode_row<E5m2>, decode_row<E2m1>, decode_row<Int8>, decode_row<Int4>},
    decode_bf16_row,
};

}  // namespace
}  // namespace subbyte::kernels
