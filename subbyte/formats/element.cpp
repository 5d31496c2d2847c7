// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/element.h"

#include <algorithm>
#include <array>

#include "subbyte/formats/float_bits.h"

namespace subbyte::formats {
namespace {

// E4M3 and E5M2: OCP OFP8 v1.0. E2M1: OCP MX v1.0, section 5.3.3. Integers: symmetric two's
// complement.
constexpr std::array<ElementFormat, 6> kElements{{
    {"e4m3", ElementKind::kFloat, 8, 4, 3, 7, Specials::kNanOnly, 448.0f},
    {"e5m2", ElementKind::kFloat, 8, 5, 2, 15, Specials::kIeee, 57344.0f},
    {"e2m1", ElementKind::kFloat, 4, 2, 1, 1, Specials::kNone, 6.0f},
    {"int8", ElementKind::kInteger, 8, 0, 0, 0, Specials::kNone, 127.0f},
    {"int4", ElementKind::kInteger, 4, 0, 0, 0, Specials::kNone, 7.0f},
    {"bf16", ElementKind::kFloat, 16, 8, 7, 127, Specials::kIeee, 0x1.FEp127f},
}};

// significand / 2^shift, rounded to an integer; `noise` as in encode().
std::uint32_t round_shifted(std::uint32_t significand, int shift, Rounding rounding,
                            std::uint16_t noise) {
    if (shift <= 0) return significand << -shift;
    if (shift > 42) return 0;  // below 2^-18: less than any tie of either rounding
    const std::uint64_t wide = significand;
    const std::uint64_t quotient = wide >> shift;
    const std::uint64_t remainder = wide - (quotient << shift);
    const auto nearest_even = [](std::uint64_t value, int bits) {
        const std::uint64_t floor = value >> bits;
        const std::uint64_t rest = value - (floor << bits);
        const std::uint64_t half = std::uint64_t{1} << (bits - 1);
        return floor + (rest > half || (rest == half && (floor & 1) != 0) ? 1 : 0);
    };
    if (rounding == Rounding::kNearestEven) {
        return static_cast<std::uint32_t>(nearest_even(wide, shift));
    }
    const std::uint64_t fraction =
        shift <= 16 ? remainder << (16 - shift) : nearest_even(remainder, shift - 16);
    return static_cast<std::uint32_t>(quotient + (noise < fraction ? 1 : 0));
}

std::uint32_t nan_code(const ElementFormat& format) {
    switch (format.specials) {
        case Specials::kNone: return 0;
        case Specials::kNanOnly: return (1u << (format.bits - 1)) - 1;
        case Specials::kIeee: break;
    }
    const std::uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
    return infinity | (1u << (format.mantissa_bits - 1));  // the quiet NaN
}

}  // namespace

int ElementFormat::emax() const { return Magnitude(to_bits(max)).floor_log2(); }

std::span<const ElementFormat> element_formats() { return kElements; }

const ElementFormat* find_element(std::string_view name) {
    const auto row = std::find_if(kElements.begin(), kElements.end(),
                                  [&](const ElementFormat& format) { return format.name == name; });
    return row == kElements.end() ? nullptr : &*row;
}

float decode(const ElementFormat& format, std::uint32_t code) {
    const std::uint32_t sign = (code >> (format.bits - 1)) & 1;
    if (format.kind == ElementKind::kInteger) {
        const int low = static_cast<int>(code & ((1u << (format.bits - 1)) - 1));
        return static_cast<float>(sign != 0 ? low - (1 << (format.bits - 1)) : low);
    }
    if (format.bits == 16) return from_bits(code << 16);
    const std::uint32_t mantissa = code & ((1u << format.mantissa_bits) - 1);
    const std::uint32_t top = (1u << format.exponent_bits) - 1;
    const std::uint32_t field = (code >> format.mantissa_bits) & top;
    const std::uint32_t sign_bit = sign << 31;
    if (format.specials == Specials::kIeee && field == top) {
        return from_bits(sign_bit | (mantissa == 0 ? kInfinityBits : kQuietNanBits));
    }
    if (format.specials == Specials::kNanOnly && field == top &&
        mantissa == (1u << format.mantissa_bits) - 1) {
        return from_bits(sign_bit | kQuietNanBits);
    }
    // An integer times a power of two; both are normal in float32, so the product is exact.
    const std::uint32_t integer = field == 0 ? mantissa : mantissa | (1u << format.mantissa_bits);
    const int exponent = static_cast<int>(std::max(field, 1u)) - format.bias - format.mantissa_bits;
    const float magnitude = static_cast<float>(integer) * power_of_two(exponent);
    return from_bits(sign_bit | to_bits(magnitude));
}

std::uint32_t encode(const ElementFormat& format, float x, Rounding rounding, std::uint16_t noise) {
    const std::uint32_t magnitude = to_bits(x) & kMagnitudeMask;
    const std::uint32_t sign = to_bits(x) >> 31;
    const std::uint32_t sign_code = sign << (format.bits - 1);
    const bool integer = format.kind == ElementKind::kInteger;
    if (magnitude > kInfinityBits) {
        return format.specials == Specials::kNone ? 0 : sign_code | nan_code(format);
    }
    if (format.bits == 16) {  // BF16: the upper half of the float32, whatever the exponent
        return magnitude == kInfinityBits
                   ? to_bits(x) >> 16
                   : sign_code | round_shifted(magnitude, 16, rounding, noise);
    }
    std::uint32_t code = 0;
    if (magnitude != 0) {
        // The largest magnitude is exact, so clamping first never changes a rounding.
        const Magnitude m(std::min(magnitude, to_bits(format.max)));
        // Below 2^lowest the spacing stops shrinking (subnormals; integers have one spacing only).
        const int lowest = integer ? 0 : 1 - format.bias;
        const int binade = integer ? 0 : std::max(m.floor_log2(), lowest);
        const int step = binade - format.mantissa_bits;
        code = round_shifted(m.significand, step - m.exponent, rounding, noise) +
               (static_cast<std::uint32_t>(binade - lowest) << format.mantissa_bits);
    }
    if (!integer) return sign_code | code;
    return (sign != 0 ? 0u - code : code) & ((1u << format.bits) - 1);
}

}  // namespace subbyte::formats
