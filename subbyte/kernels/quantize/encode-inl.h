// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Scaling and rounding of elements to codes.
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

// Code of the magnitude y (finite, y >= 0) with the sign of x; the low kBits bits of each lane, the
// rest is 0. Rounding is one float addition: with m = 2^(e + 23 - kMantissa - s), e the exponent of
// y (not below that of the smallest normal number), y + m holds rint(y / step * 2^s) in its low
// mantissa bits, ties to even. s = kNoise extra bits make the fraction that stochastic rounding
// compares with the kNoise bits of noise: it carries into the code exactly when noise < fraction.
// kNoise = 0: nearest.
template <class E, int kNoise>
inline I encode_magnitude(F y, I x, I noise) {
    constexpr std::uint32_t kNoiseMask = (1u << kNoise) - 1;
    y = min(y, set(E::kMax));
    if constexpr (E::kInteger) {
        if constexpr (E::kUnit != 1.0f) y = mul(y, set(1.0f / E::kUnit));
        I code;
        if constexpr (kNoise > 0) {
            const I w = bits(add(y, set(static_cast<float>(1 << (23 - kNoise)))));
            code = and_(shift_right<kNoise>(add(w, xor_(noise, set(kNoiseMask)))), set(0x7Fu));
        } else {
            code = and_(bits(add(y, set(0x1p23f))), set(0x7Fu));
        }
        const I sign = sign_mask(x);
        return and_(sub(xor_(code, sign), sign), set((1u << E::kBits) - 1));
    } else {
        constexpr int kShift = 23 - E::kMantissa;
        constexpr std::uint32_t kMask = (1u << (E::kBits - 1)) - 1;
        constexpr float kSmallestNormal = 1.0f / static_cast<float>(1 << (E::kBias - 1));
        const I exponent = and_(bits(max(y, set(kSmallestNormal))), set(kInfinity));
        I code;
        if constexpr (kNoise > 0) {
            // The exponent field counts from 127, the code's from 1 - kBias; the difference rides
            // on the noise, modulo the bits that the mask keeps.
            constexpr std::uint32_t kOffset = ((E::kBias - 128u) << E::kMantissa) & kMask;
            const I m = add(exponent, set(static_cast<std::uint32_t>(kShift - kNoise) << 23));
            const I w = bits(add(y, floats(m)));
            const I up = xor_(noise, set((kOffset << kNoise) | kNoiseMask));
            code = add(shift_right<kNoise>(add(w, up)), shift_right<kShift>(exponent));
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

// The roundings that encode_row() is compiled for: nearest (ties to even), stochastic with 16 or 8
// bits of noise, and those that move the nearest neighbour by comparing it with y.
enum class Round { kNearest, kNoise16, kNoise8, kAway, kZero, kUp, kDown };

constexpr int noise_bits(Round round) {
    return round == Round::kNoise16 ? 16 : round == Round::kNoise8 ? 8 : 0;
}

constexpr formats::Rounding element_rounding(Round round) {
    switch (round) {
        case Round::kAway: return formats::Rounding::kNearestAway;
        case Round::kZero: return formats::Rounding::kTowardZero;
        case Round::kUp: return formats::Rounding::kUp;
        case Round::kDown: return formats::Rounding::kDown;
        default: return formats::Rounding::kNearestEven;
    }
}

// encode_magnitude() for a rounding of the last kind. The nearest neighbour is as there a float
// addition; what it is too large or too small by is exact.
template <class E, Round kRound>
inline I encode_moved(F y, I x) {
    y = min(y, set(E::kMax));
    constexpr bool kFloat = !E::kInteger;
    F half_step;
    I m;
    if constexpr (kFloat) {
        constexpr int kShift = 23 - E::kMantissa;
        constexpr std::uint32_t kMask = (1u << (E::kBits - 1)) - 1;
        constexpr std::uint32_t kOffset = ((E::kBias - 128u - kShift) << E::kMantissa) & kMask;
        constexpr float kSmallestNormal = 1.0f / static_cast<float>(1 << (E::kBias - 1));
        const I exponent = and_(bits(max(y, set(kSmallestNormal))), set(kInfinity));
        m = add(exponent, set((static_cast<std::uint32_t>(kShift) << 23) + kOffset));
        half_step = floats(sub(exponent, set((E::kMantissa + 1u) << 23)));
    } else {
        if constexpr (E::kUnit != 1.0f) y = mul(y, set(1.0f / E::kUnit));
        m = bits(set(0x1p23f));
        half_step = set(0.5f);
    }
    const F one = set(1.0f);
    I w = bits(add(y, floats(m)));
    const F nearest = neg_mul_add(floats(m), one, floats(w));
    const I above = greater(bits(nearest), bits(y)), below = greater(bits(y), bits(nearest));
    const I negative = sign_mask(x);  // above, below and negative are 0 or -1
    if constexpr (kRound == Round::kAway) {
        const F missing = neg_mul_add(nearest, one, y);
        w = sub(w, equal(bits(missing), bits(half_step)));
    } else if constexpr (kRound == Round::kZero) {
        w = add(w, above);
    } else {
        const I inwards = kRound == Round::kUp ? negative : xor_(negative, set(0xFFFFFFFFu));
        w = add(w, merge(inwards, above, sub(set(0u), below)));
    }
    if constexpr (kFloat) {
        constexpr int kShift = 23 - E::kMantissa;
        constexpr std::uint32_t kMask = (1u << (E::kBits - 1)) - 1;
        const I code = add(w, shift_right<kShift>(w));
        return and_(merge(set(kMask), code, shift_right<32 - E::kBits>(x)),
                    set((1u << E::kBits) - 1));
    } else {
        const I code = and_(w, set(0x7Fu));
        return and_(sub(xor_(code, negative), negative), set((1u << E::kBits) - 1));
    }
}

// |x| scaled as the tile wants it.
//
// kDivideByReciprocal is the correctly rounded a / s: r + r_low is 1 / s to twice the precision, so
// q is within one ulp of the quotient, and with r correctly rounded one more step ends on it
// (Markstein's theorem, e.g. Handbook of Floating-Point Arithmetic, 2nd ed., section 4.7). Scales
// within 2^-60 .. 2^60 keep what underflows on the way far below anything that rounding to a code
// can see.
inline F divide(F a, F scale, F r, F r_low) {
    const F q = mul_add(a, r, mul(a, r_low));
    return mul_add(neg_mul_add(q, scale, a), r, q);
}

template <Scaling kScaling>
inline F scale_magnitude(F a, const TileFactors& tiles, std::int64_t tile) {
    if constexpr (kScaling == Scaling::kMultiply) return mul(a, set(tiles.reciprocal[tile]));
    if constexpr (kScaling == Scaling::kMultiplyThreeQuarters) {
        return mul(mul(a, set(0.75f)), set(tiles.reciprocal[tile]));
    }
    if constexpr (kScaling == Scaling::kDivide) return div(a, set(tiles.scale[tile]));
    return divide(a, set(tiles.scale[tile]), set(tiles.reciprocal[tile]),
                  set(tiles.reciprocal_low[tile]));
}

// The noise of kLanes elements, kNoise bits each.
template <int kNoise>
inline I noise_lanes(const std::uint16_t* words) {
    if constexpr (kNoise == 0) return set(0u);
    if constexpr (kNoise == 16) return load_words(words);
    return shift_right<16 - kNoise>(load_words(words));
}

template <class E, Round kRound, Scaling kScaling>
inline void encode_tile(const float* x, std::int64_t count, const TileFactors& tiles,
                        std::int64_t tile, const std::uint16_t* noise, std::uint8_t* codes) {
    const I magnitude = set(kMagnitude);
    const auto encode = [&](F value, const std::uint16_t* words) {
        const I b = bits(value);
        const F y = scale_magnitude<kScaling>(floats(and_(b, magnitude)), tiles, tile);
        if constexpr (kRound < Round::kAway) {
            constexpr int kNoise = noise_bits(kRound);
            return encode_magnitude<E, kNoise>(y, b, noise_lanes<kNoise>(words));
        } else {
            return encode_moved<E, kRound>(y, b);
        }
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

// Calls encode.operator()<Scaling>(tile, begin, end) for each tile of the span; tiles of zeros get
// code 0.
template <bool kReciprocal, class Encode>
void encode_tiles(const RowSpan& span, const TileFactors& tiles, std::uint8_t* codes,
                  const Encode& encode) {
    for_tiles(span, [&](std::int64_t tile, std::int64_t begin, std::int64_t end) {
        switch (tiles.scaling[tile]) {
            case Scaling::kZero:
                std::memset(codes + begin, 0, static_cast<std::size_t>(end - begin));
                break;
            case Scaling::kMultiply:
                encode.template operator()<Scaling::kMultiply>(tile, begin, end);
                break;
            case Scaling::kMultiplyThreeQuarters:
                encode.template operator()<Scaling::kMultiplyThreeQuarters>(tile, begin, end);
                break;
            case Scaling::kDivideByReciprocal:
                if constexpr (kReciprocal) {
                    encode.template operator()<Scaling::kDivideByReciprocal>(tile, begin, end);
                    break;
                }
                [[fallthrough]];
            case Scaling::kDivide:
                encode.template operator()<Scaling::kDivide>(tile, begin, end);
                break;
        }
    });
}

// As many of the first tiles of a span as are a few whole vectors wide and are multiplied, all
// without a look at each; returns their columns.
template <class E, Round kRound>
std::int64_t encode_narrow_tiles(const float* x, const RowSpan& span, const TileFactors& tiles,
                                 const std::uint16_t* noise, std::uint8_t* codes) {
    constexpr int kNoise = noise_bits(kRound);
    const std::int64_t width = span.tile_cols;
    if (width % kLanes != 0 || width > 32 || span.begin % width != 0) return 0;
    const std::int64_t count = (span.end - span.begin) / width;
    bool multiplied = true;
    for (std::int64_t tile = 0; tile < count; ++tile) {
        multiplied &= tiles.scaling[tile] == Scaling::kMultiply;
    }
    if (!multiplied) return 0;
    const auto encode = [&](std::int64_t c, F factor) {
        const I b = bits(load(x + c));
        const F y = mul(floats(and_(b, set(kMagnitude))), factor);
        store_bytes(codes + c, encode_magnitude<E, kNoise>(y, b, noise_lanes<kNoise>(noise + c)));
    };
    std::int64_t c = 0;
    for (std::int64_t tile = 0; tile < count; ++tile) {
        const F factor = set(tiles.reciprocal[tile]);
        for (const std::int64_t end = c + width; c < end; c += kLanes) encode(c, factor);
    }
    return c;
}

template <class E, Round kRound>
void encode_row(const float* x, const RowSpan& span, const TileFactors& tiles,
                const std::uint16_t* noise, std::uint8_t* codes) {
    if constexpr (kRound == Round::kNearest || kRound == Round::kNoise16) {
        const std::int64_t done = encode_narrow_tiles<E, kRound>(x, span, tiles, noise, codes);
        if (done == span.end - span.begin) return;
    }
    // Up and down see the smallest quotient, which multiplying by the reciprocal may lose.
    encode_tiles<(kRound < Round::kUp)>(
        span, tiles, codes,
        [&]<Scaling kScaling>(std::int64_t tile, std::int64_t begin, std::int64_t end) {
            encode_tile<E, kRound, kScaling>(x + begin, end - begin, tiles, tile,
                                             noise_bits(kRound) > 0 ? noise + begin : nullptr,
                                             codes + begin);
        });
}

// Codes of elements that are tables, in any of these roundings but the stochastic ones.
inline I encode_by_cell(const CodeCells& cells, F y, I x) {
    const I zero = equal(and_(x, set(kMagnitude)), set(0u));  // whatever it was multiplied by
    const I m = merge(zero, set(0u), bits(min(y, set(CodeCells::kMax))));
    const I lowest = set(CodeCells::kLowest);
    const I half = and_(sign_mask(x), set(CodeCells::kHalf));
    const I index = add(sub(max_unsigned(shift_right<CodeCells::kShift>(m), lowest), lowest), half);
    const I threshold = gather<2>(&cells.cell[0].threshold, index);
    const I codes = gather<2>(&cells.cell[0].codes, index);
    return and_(merge(greater(threshold, m), codes, shift_right<8>(codes)), set(0xFFu));
}

template <Scaling kScaling>
void encode_tile_by_cells(const CodeCells& cells, const float* x, std::int64_t count,
                          const TileFactors& tiles, std::int64_t tile, std::uint8_t* codes) {
    for (std::int64_t c = 0; c < count; c += kLanes) {
        const std::int64_t n = smaller(kLanes, count - c);
        const F value = n == kLanes ? load(x + c) : load_first(x + c, n);
        const F a = floats(and_(bits(value), set(kMagnitude)));
        const I code =
            encode_by_cell(cells, scale_magnitude<kScaling>(a, tiles, tile), bits(value));
        std::uint8_t some[kLanes];
        store_bytes(n == kLanes ? codes + c : some, code);
        if (n < kLanes) std::memcpy(codes + c, some, static_cast<std::size_t>(n));
    }
}

void encode_row_by_cells(const CodeCells& cells, const float* x, const RowSpan& span,
                         const TileFactors& tiles, std::uint8_t* codes) {
    // The same cells serve the roundings up and down.
    encode_tiles<false>(
        span, tiles, codes,
        [&]<Scaling kScaling>(std::int64_t tile, std::int64_t begin, std::int64_t end) {
            encode_tile_by_cells<kScaling>(cells, x + begin, end - begin, tiles, tile,
                                           codes + begin);
        });
}

template <class E, Round kRound>
void encode_table_row(const float* x, const RowSpan& span, const TileFactors& tiles,
                      const std::uint16_t*, std::uint8_t* codes) {
    static std::atomic<const CodeCells*> known{nullptr};
    const CodeCells* const cells =
        kept(known, [] { return &code_cells(E::kName, element_rounding(kRound)); });
    encode_row_by_cells(*cells, x, span, tiles, codes);
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
    const I nan = greater(and_(b, set(kMagnitude)), set(kInfinity));
    const I quiet = merge(set(0x8000u), upper, set(0x7FC0u));
    return merge(nan, quiet, shift_right<16>(add(b, up)));
}

template <bool kStochastic>
void encode_bf16_loop(const float* x, std::int64_t count, const std::uint16_t* noise,
                      std::uint8_t* codes) {
    const auto words = [&](std::int64_t c) {
        return kStochastic ? load_words(noise + c) : set(0u);
    };
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

}  // namespace
}  // namespace subbyte::kernels
