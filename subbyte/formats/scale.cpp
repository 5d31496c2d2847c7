// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/scale.h"

#include <fmt/format.h>

#include <algorithm>

#include "subbyte/core/error.h"
#include "subbyte/formats/float_bits.h"

namespace subbyte::formats {
namespace {

constexpr std::uint8_t kE8m0Nan = 0xFF;
constexpr std::uint8_t kUe4m3Nan = 0x7F;

const ElementFormat& e4m3() {
    static const ElementFormat* const format = find_element("e4m3");
    return *format;
}

}  // namespace

std::string_view scale_name(ScaleFormat format) {
    switch (format) {
        case ScaleFormat::kNone: return "";
        case ScaleFormat::kFp32: return "f32";
        case ScaleFormat::kE8m0: return "e8m0";
        case ScaleFormat::kUe4m3: return "ue4m3";
    }
    return "";
}

std::string_view scale_rule_name(ScaleRule rule) {
    switch (rule) {
        case ScaleRule::kDefault: return "";
        case ScaleRule::kFloor: return "floor";
        case ScaleRule::kCeil: return "ceil";
        case ScaleRule::kRceil: return "rceil";
        case ScaleRule::kEven: return "even";
    }
    return "";
}

float decode_scale(ScaleFormat format, std::uint8_t code) {
    if (format == ScaleFormat::kE8m0) {
        return code == kE8m0Nan ? from_bits(kQuietNanBits) : power_of_two(int{code} - 127);
    }
    if (format == ScaleFormat::kUe4m3) return decode(e4m3(), code & 0x7F);
    throw Error(ErrorCode::kInternal,
                fmt::format("scale format '{}' has no codes", scale_name(format)));
}

std::uint8_t encode_scale(ScaleFormat format, float scale) {
    const std::uint32_t bits = to_bits(scale);
    const bool nan = (bits & kMagnitudeMask) > kInfinityBits;
    if (!nan && bits > kInfinityBits) {
        throw Error(ErrorCode::kUsage, fmt::format("scale {} is negative", scale),
                    "scales are positive numbers");
    }
    if (format == ScaleFormat::kE8m0) {
        if (nan) return kE8m0Nan;
        if (bits == 0 || bits == kInfinityBits || Magnitude(bits).significand != 0x800000 ||
            Magnitude(bits).floor_log2() < -127) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("scale {} is not a power of two in 2^-127 ... 2^127", scale));
        }
        return static_cast<std::uint8_t>(Magnitude(bits).floor_log2() + 127);
    }
    if (format == ScaleFormat::kUe4m3) {
        return nan ? kUe4m3Nan
                   : static_cast<std::uint8_t>(encode(e4m3(), scale, Rounding::kNearestEven));
    }
    throw Error(ErrorCode::kInternal,
                fmt::format("scale format '{}' has no codes", scale_name(format)));
}

int e8m0_exponent(const ElementFormat& element, ScaleRule rule, float amax) {
    const Magnitude m(to_bits(amax));
    int log2 = m.floor_log2();
    switch (rule) {
        case ScaleRule::kDefault:
        case ScaleRule::kFloor: break;
        case ScaleRule::kCeil: log2 += m.significand != 0x800000 ? 1 : 0; break;
        case ScaleRule::kRceil:
            // amax <= max * 2^(log2 - emax), compared with equal exponents.
            log2 += m.significand > Magnitude(to_bits(element.max)).significand ? 1 : 0;
            break;
        case ScaleRule::kEven: {
            const int digits =
                element.kind == ElementKind::kInteger ? element.bits - 2 : element.mantissa_bits;
            const std::uint32_t rounded = to_bits(amax) + (1u << (22 - digits));
            log2 = static_cast<int>(rounded >> 23) - 127;
            break;
        }
    }
    return std::clamp(log2 - element.emax(), -127, 127);
}

float fp32_scale(const ElementFormat& element, float amax) {
    if (to_bits(amax) == 0) return element.has_zero() ? 1.0f : 0.0f;
    const float scale = amax / element.max;
    return to_bits(scale) == 0 ? power_of_two(-149) : scale;
}

}  // namespace subbyte::formats
