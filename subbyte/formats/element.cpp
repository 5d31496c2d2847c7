// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The codecs of the element formats.
#include "subbyte/formats/element.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "subbyte/core/error.h"
#include "subbyte/formats/float_bits.h"

namespace subbyte::formats {
namespace {

// How to round, with the noise already cut to its bits.
struct Rule {
    Rounding rounding;
    std::uint32_t noise;
    int noise_bits;
};

// The same rule for the magnitude of a negative number.
Rounding mirrored(Rounding rounding) {
    if (rounding == Rounding::kUp) return Rounding::kDown;
    return rounding == Rounding::kDown ? Rounding::kUp : rounding;
}

std::uint64_t nearest_even(std::uint64_t value, int bits) {
    const std::uint64_t floor = value >> bits;
    const std::uint64_t rest = value - (floor << bits);
    const std::uint64_t half = std::uint64_t{1} << (bits - 1);
    return floor + (rest > half || (rest == half && (floor & 1) != 0) ? 1 : 0);
}

// significand / 2^shift, rounded to an integer as a positive number. The code is `offset` more than
// that: ties go to the even code.
std::uint32_t round_shifted(std::uint32_t significand, int shift, const Rule& rule,
                            std::uint32_t offset = 0) {
    if (shift <= 0) return significand << -shift;
    // Below 2^-18 of a step: less than any tie, and nothing to 16 bits of noise.
    if (shift > 42) return rule.rounding == Rounding::kUp && significand != 0 ? 1 : 0;
    const std::uint64_t wide = significand;
    const std::uint64_t quotient = wide >> shift;
    const std::uint64_t remainder = wide - (quotient << shift);
    const std::uint64_t half = std::uint64_t{1} << (shift - 1);
    bool up = false;
    switch (rule.rounding) {
        case Rounding::kNearestEven:
            up = remainder > half || (remainder == half && ((quotient + offset) & 1) != 0);
            break;
        case Rounding::kNearestAway: up = remainder >= half; break;
        case Rounding::kNearestZero: up = remainder > half; break;
        case Rounding::kTowardZero:
        case Rounding::kDown: break;
        case Rounding::kUp: up = remainder != 0; break;
        case Rounding::kStochastic: {
            const int bits = rule.noise_bits;
            up = rule.noise < (shift <= bits ? remainder << (bits - shift)
                                             : nearest_even(remainder, shift - bits));
            break;
        }
    }
    return static_cast<std::uint32_t>(quotient + (up ? 1 : 0));
}

// Index of the neighbour of x in a rising table; x lies within its ends. The differences are exact
// in double: two floats of similar size, or one of them zero.
std::uint32_t round_in_table(std::span<const float> values, float x, const Rule& rule,
                             bool ties_up) {
    const auto above = std::lower_bound(values.begin(), values.end(), x);
    const auto high = static_cast<std::uint32_t>(above - values.begin());
    if (*above == x) return high;
    const std::uint32_t low = high - 1;
    const double below = double{x} - double{values[low]}, over = double{values[high]} - double{x};
    bool up = false;
    switch (rule.rounding) {
        case Rounding::kNearestEven:
            up = below > over || (below == over && (ties_up || low % 2 != 0));
            break;
        case Rounding::kNearestAway: up = below > over || (below == over && x > 0.0f); break;
        case Rounding::kNearestZero: up = below > over || (below == over && x < 0.0f); break;
        case Rounding::kTowardZero: up = x < 0.0f; break;
        case Rounding::kUp: up = true; break;
        case Rounding::kDown: break;
        case Rounding::kStochastic:
            up = rule.noise < std::nearbyint(std::ldexp(below / (below + over), rule.noise_bits));
            break;
    }
    return up ? high : low;
}

std::uint32_t infinity_code(const ElementFormat& format) {
    return ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
}

std::uint32_t nan_code(const ElementFormat& format) {
    if (format.specials == Specials::kNone) return 0;
    if (format.specials == Specials::kIeee) {
        return infinity_code(format) | (1u << (format.mantissa_bits - 1));  // the quiet NaN
    }
    return (1u << (format.bits - 1)) - 1;
}

// Code of a positive magnitude (as float bits) on the grid of a float or integer format, without
// an upper end.
std::uint32_t grid_code(const ElementFormat& format, std::uint32_t magnitude, const Rule& rule) {
    if (magnitude == 0) return 0;
    const bool integer = format.kind == ElementKind::kInteger;
    const Magnitude m(magnitude);
    // Below 2^lowest the spacing stops shrinking (subnormals; integers have one spacing only).
    const int lowest = integer ? -format.bias : 1 - format.bias;
    const int binade = integer ? lowest : std::max(m.floor_log2(), lowest);
    const int step = binade - format.mantissa_bits;
    const auto offset = static_cast<std::uint32_t>(binade - lowest) << format.mantissa_bits;
    return offset + round_shifted(m.significand, step - m.exponent, rule, offset);
}

}  // namespace

float decode(const ElementFormat& format, std::uint32_t code) {
    const std::uint32_t sign = (code >> (format.bits - 1)) & 1;
    const std::uint32_t low = code & ((1u << (format.bits - 1)) - 1);
    if (format.kind == ElementKind::kTable) return format.values[code & ((1u << format.bits) - 1)];
    if (format.kind == ElementKind::kLog) {
        const float magnitude = format.values[low];
        return sign != 0 && low != 0 ? -magnitude : magnitude;
    }
    if (format.kind == ElementKind::kInteger) {
        const int integer = static_cast<int>(low) - (sign != 0 ? 1 << (format.bits - 1) : 0);
        return static_cast<float>(integer) * power_of_two(-format.bias);
    }
    if (format.bits == 16) return from_bits(code << 16);
    const std::uint32_t mantissa = low & ((1u << format.mantissa_bits) - 1);
    const std::uint32_t field = low >> format.mantissa_bits;
    const std::uint32_t sign_bit = sign << 31;
    const bool top = field == (1u << format.exponent_bits) - 1;
    if ((format.specials == Specials::kReserved && top) ||
        (format.specials == Specials::kNanOnly && low == nan_code(format))) {
        return from_bits(sign_bit | kQuietNanBits);
    }
    if (format.specials == Specials::kIeee && top) {
        return from_bits(sign_bit | (mantissa == 0 ? kInfinityBits : kQuietNanBits));
    }
    // An integer times a power of two; both are normal in float32, so the product is exact.
    const std::uint32_t integer = field == 0 ? mantissa : mantissa | (1u << format.mantissa_bits);
    const int exponent = static_cast<int>(std::max(field, 1u)) - format.bias - format.mantissa_bits;
    const float magnitude = static_cast<float>(integer) * power_of_two(exponent);
    return from_bits(sign_bit | to_bits(magnitude));
}

std::uint32_t encode(const ElementFormat& format, float x, Rounding rounding, std::uint16_t noise,
                     int noise_bits) {
    const std::uint32_t magnitude = to_bits(x) & kMagnitudeMask;
    const std::uint32_t sign = to_bits(x) >> 31;
    const std::uint32_t sign_code = sign << (format.bits - 1);
    if (magnitude > kInfinityBits) {
        return format.specials == Specials::kNone ? 0 : sign_code | nan_code(format);
    }
    Rule rule{rounding, std::uint32_t{noise} >> (kMostNoiseBits - noise_bits), noise_bits};
    if (format.kind == ElementKind::kTable) {
        return round_in_table(format.values, std::clamp(x, format.lowest, format.max), rule, true);
    }
    if (sign != 0) rule.rounding = mirrored(rounding);
    if (format.bits == 16) {  // BF16: the upper half of the float32, whatever the exponent
        return magnitude == kInfinityBits ? to_bits(x) >> 16
                                          : sign_code | round_shifted(magnitude, 16, rule);
    }
    // The largest magnitude is exact, so clamping first never changes a rounding.
    const std::uint32_t top = to_bits(sign != 0 ? -format.lowest : format.max);
    const std::uint32_t clamped = std::min(magnitude, top);
    if (format.kind == ElementKind::kLog) {
        const std::uint32_t code = round_in_table(format.values, from_bits(clamped), rule, false);
        return code == 0 ? 0 : sign_code | code;
    }
    const std::uint32_t code = grid_code(format, clamped, rule);
    if (format.kind == ElementKind::kFloat) return sign_code | code;
    return (sign != 0 ? 0u - code : code) & ((1u << format.bits) - 1);
}

std::uint32_t encode_unsaturated(const ElementFormat& format, float x) {
    if (format.specials == Specials::kNone) {
        throw Error(ErrorCode::kInternal,
                    fmt::format("{} has no code for what lies beyond its range", format.name));
    }
    const std::uint32_t magnitude = to_bits(x) & kMagnitudeMask;
    const std::uint32_t sign_code = to_bits(x) >> 31 << (format.bits - 1);
    if (magnitude <= kInfinityBits) {
        // Twice the largest number is beyond any rounding to it.
        const std::uint32_t beyond = to_bits(2.0f * format.max);
        const std::uint32_t code = grid_code(format, std::min(magnitude, beyond),
                                             {Rounding::kNearestEven, 0, kMostNoiseBits});
        if (code <= grid_code(format, to_bits(format.max), {Rounding::kNearestEven, 0, 1})) {
            return sign_code | code;
        }
        if (format.specials == Specials::kIeee) return sign_code | infinity_code(format);
    }
    return sign_code | nan_code(format);
}

}  // namespace subbyte::formats
