// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "subbyte/core/error.h"
#include "subbyte/formats/float_bits.h"

namespace subbyte::formats {
namespace {

constexpr std::uint8_t kE8m0Nan = 0xFF;

// The scale formats with a mantissa as element formats whose sign bit is never set.
constexpr ElementFormat kUe4m3{"ue4m3", ElementKind::kFloat, 8,      4,   3,
                               7,       Specials::kNanOnly,  448.0f, 0.0f};
constexpr ElementFormat kUe5m3{"ue5m3", ElementKind::kFloat, 9,         5,   3,
                               15,      Specials::kNanOnly,  114688.0f, 0.0f};
constexpr ElementFormat kUe5m3h{"ue5m3h", ElementKind::kFloat, 9,        5,   3,
                                15,       Specials::kReserved, 61440.0f, 0.0f};

const ElementFormat& ue_format(ScaleFormat format) {
    switch (format) {
        case ScaleFormat::kUe4m3: return kUe4m3;
        case ScaleFormat::kUe5m3: return kUe5m3;
        case ScaleFormat::kUe5m3h: return kUe5m3h;
        default: break;
    }
    throw Error(ErrorCode::kInternal,
                fmt::format("scale format '{}' has no codes", scale_name(format)));
}

// Code of the power of two below, above or next to a positive number.
std::uint8_t encode_e8m0(float scale, Rounding rounding) {
    const std::uint32_t bits = to_bits(scale);
    if (bits == 0) return 0;
    if (bits == kInfinityBits) return 254;
    const Magnitude m(bits);
    const int below = m.floor_log2() + 127;
    bool up = false;
    if (rounding == Rounding::kUp) up = m.significand != 0x800000;
    if (rounding == Rounding::kNearestEven) {
        up = m.significand > 0xC00000 || (m.significand == 0xC00000 && below % 2 != 0);
    }
    return static_cast<std::uint8_t>(std::clamp(below + (up ? 1 : 0), 0, 254));
}

// Exponent of the power of two that `rule` takes for this amax, wherever it lies.
int power_of_two_exponent(const ElementFormat& element, ScaleRule rule, float amax) {
    const Magnitude m(to_bits(amax));
    const int exponent = m.floor_log2() - element.emax();
    // amax / max = (a / b) * 2^exponent, a and b in [2^23, 2^24)
    const std::uint32_t a = m.significand, b = Magnitude(to_bits(element.max)).significand;
    switch (rule) {
        case ScaleRule::kDefault:
        case ScaleRule::kFloor:
        case ScaleRule::kUp: break;
        case ScaleRule::kCeil: return exponent + (a != 0x800000 ? 1 : 0);
        case ScaleRule::kRceil: return exponent + (a > b ? 1 : 0);
        case ScaleRule::kEven: {
            const int digits =
                element.kind == ElementKind::kInteger ? element.bits - 2 : element.mantissa_bits;
            const std::uint32_t rounded = to_bits(amax) + (1u << (22 - digits));
            return static_cast<int>(rounded >> 23) - 127 - element.emax();
        }
        case ScaleRule::kNearest: {
            const int below = a >= b ? exponent : exponent - 1;
            const std::uint64_t twice = (a >= b ? 2ull : 4ull) * a, half = 3ull * b;
            return below + (twice > half || (twice == half && (below + 127) % 2 != 0) ? 1 : 0);
        }
    }
    return exponent;
}

constexpr std::array kFormats{ScaleFormat::kFp32, ScaleFormat::kE8m0, ScaleFormat::kUe4m3,
                              ScaleFormat::kUe5m3, ScaleFormat::kUe5m3h};
constexpr std::array kE8m0Rules{ScaleRule::kFloor, ScaleRule::kCeil, ScaleRule::kRceil,
                                ScaleRule::kEven, ScaleRule::kNearest};
constexpr std::array kFp32Rules{ScaleRule::kFloor, ScaleRule::kCeil, ScaleRule::kRceil};
constexpr std::array kUeRules{ScaleRule::kUp};

}  // namespace

std::string_view scale_name(ScaleFormat format) {
    switch (format) {
        case ScaleFormat::kNone: return "";
        case ScaleFormat::kFp32: return "f32";
        case ScaleFormat::kE8m0: return "e8m0";
        case ScaleFormat::kUe4m3: return "ue4m3";
        case ScaleFormat::kUe5m3: return "ue5m3";
        case ScaleFormat::kUe5m3h: return "ue5m3h";
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
        case ScaleRule::kNearest: return "nearest";
        case ScaleRule::kUp: return "up";
    }
    return "";
}

std::span<const ScaleFormat> scale_formats() { return kFormats; }

std::span<const ScaleRule> scale_rules(ScaleFormat format) {
    if (format == ScaleFormat::kNone) return {};
    if (format == ScaleFormat::kFp32) return kFp32Rules;
    return is_ue(format) ? std::span<const ScaleRule>(kUeRules) : kE8m0Rules;
}

bool is_ue(ScaleFormat format) {
    return format == ScaleFormat::kUe4m3 || format == ScaleFormat::kUe5m3 ||
           format == ScaleFormat::kUe5m3h;
}

float scale_max(ScaleFormat format) {
    return format == ScaleFormat::kE8m0 ? 0x1p127f : ue_format(format).max;
}

float decode_scale(ScaleFormat format, std::uint8_t code) {
    if (format == ScaleFormat::kE8m0) {
        return code == kE8m0Nan ? from_bits(kQuietNanBits) : power_of_two(int{code} - 127);
    }
    const ElementFormat& ue = ue_format(format);
    return decode(ue, code & ((1u << (ue.bits - 1)) - 1));
}

std::uint8_t encode_scale(ScaleFormat format, float scale, Rounding rounding, std::uint16_t noise) {
    const std::uint32_t bits = to_bits(scale);
    const bool nan = (bits & kMagnitudeMask) > kInfinityBits;
    if (!nan && bits > kInfinityBits) {
        throw Error(ErrorCode::kUsage, fmt::format("scale {} is negative", scale),
                    "scales are positive numbers");
    }
    if (format == ScaleFormat::kE8m0) return nan ? kE8m0Nan : encode_e8m0(scale, rounding);
    const float positive = from_bits(bits & kMagnitudeMask);  // also of a NaN
    return static_cast<std::uint8_t>(encode(ue_format(format), positive, rounding, noise));
}

std::uint8_t encode_scale_unsaturated(ScaleFormat format, float scale) {
    return static_cast<std::uint8_t>(encode_unsaturated(ue_format(format), scale));
}

int e8m0_exponent(const ElementFormat& element, ScaleRule rule, float amax) {
    return std::clamp(power_of_two_exponent(element, rule, amax), -127, 127);
}

float fp32_scale(const ElementFormat& element, float amax, ScaleRule rule) {
    if (to_bits(amax) == 0) return element.has_zero() ? 1.0f : 0.0f;
    if (rule != ScaleRule::kDefault) {
        return power_of_two(std::clamp(power_of_two_exponent(element, rule, amax), -149, 127));
    }
    const float scale = amax / element.max;
    return to_bits(scale) == 0 ? power_of_two(-149) : scale;
}

}  // namespace subbyte::formats
