// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace subbyte::formats {

inline std::uint32_t to_bits(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

inline constexpr std::uint32_t kInfinityBits = 0x7F800000;
inline constexpr std::uint32_t kMagnitudeMask = 0x7FFFFFFF;
inline constexpr std::uint32_t kQuietNanBits = 0x7FC00000;

// Finite positive magnitude as significand * 2^exponent with the leading one of the significand at
// bit 23. Made from the bits alone, so that subnormals are exact under any floating-point mode.
struct Magnitude {
    std::uint32_t significand;
    int exponent;

    explicit Magnitude(std::uint32_t bits) {
        const std::uint32_t field = bits >> 23;
        significand = bits & 0x7FFFFF;
        if (field != 0) {
            significand |= 0x800000;
            exponent = static_cast<int>(field) - 150;
        } else {
            const int shift = std::countl_zero(significand) - 8;
            significand <<= shift;
            exponent = -149 - shift;
        }
    }
    int floor_log2() const { return exponent + 23; }
};

// 2^exponent for exponent in [-149, 127].
inline float power_of_two(int exponent) {
    return from_bits(exponent >= -126 ? static_cast<std::uint32_t>(exponent + 127) << 23
                                      : std::uint32_t{1} << (exponent + 149));
}

}  // namespace subbyte::formats
