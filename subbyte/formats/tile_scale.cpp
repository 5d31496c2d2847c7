// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/tile_scale.h"

#include <algorithm>
#include <limits>

#include "subbyte/formats/float_bits.h"

namespace subbyte::formats {
namespace {

constexpr float kLargestFloat = std::numeric_limits<float>::max();
constexpr float kUeTarget = 448.0f, kRaisedTarget = 256.0f;
// Head room of stochastic rounding: an E4M3 scale is at most 1/16 too small.
constexpr float kGuard = 17.0f / 16.0f, kMxGuard = 0.75f;
// MS-EDEN (2601.22813): its elements may reach 6 / (0.93 * 17/16) of a scale.
constexpr float kEdenGuard = 0.93f * kGuard;
constexpr float kSmallestNormal = 0x1p-6f;  // of E4M3; torchao's lowest scale

bool multiplies(const QuantSpec& spec) {
    return is_ue(spec.scale) || spec.second_level || spec.order == ScaleOrder::kReciprocal;
}

// amax with the head room that the spec asks for.
float guarded(const QuantSpec& spec, float amax) {
    return std::min(amax * amax_factor(spec), kLargestFloat);
}

// The wish that is rounded to a ue scale; see ScaleOrder.
float wanted_ue_scale(const QuantSpec& spec, float amax, const SecondLevel& level) {
    const float max = spec.element->max;
    switch (spec.order) {
        case ScaleOrder::kTeB: return amax * (level.encode * (1.0f / max));
        case ScaleOrder::kTorchao: return std::max((amax / max) / level.decode, kSmallestNormal);
        default: return (amax / max) * level.encode;
    }
}

std::uint8_t ue_code(const QuantSpec& spec, float wanted) {
    if (spec.order == ScaleOrder::kGgml) {
        // Ties away from zero; what is below the smallest normal number stays subnormal.
        const std::uint8_t code = encode_scale(spec.scale, wanted, Rounding::kNearestAway);
        return wanted < kSmallestNormal ? std::min<std::uint8_t>(code, 7) : code;
    }
    return encode_scale(spec.scale, wanted,
                        spec.rule == ScaleRule::kUp ? Rounding::kUp : Rounding::kNearestEven);
}

// Under ggml and torchao the scaled value keeps the order of their operations.
float ue_factor(const QuantSpec& spec, float scale, const SecondLevel& level) {
    if (spec.order == ScaleOrder::kGgml) return scale;
    if (spec.order == ScaleOrder::kTorchao) return (1.0f / level.decode) / scale;
    return std::min(1.0f / (scale * level.decode), kLargestFloat);
}

}  // namespace

float amax_factor(const QuantSpec& spec) {
    if (spec.ms_eden) return kEdenGuard;
    return spec.guard && is_ue(spec.scale) ? kGuard : 1.0f;
}

SecondLevel second_level(const QuantSpec& spec, float amax) {
    if (!spec.second_level || amax == 0.0f) return {};
    const float target = !is_ue(spec.scale)                                        ? 1.0f
                         : spec.ms_eden || spec.four_over_six != FourOverSix::kOff ? kRaisedTarget
                                                                                   : kUeTarget;
    SecondLevel level;
    if (spec.order == ScaleOrder::kTorchao) {
        level.decode = amax / (target * spec.element->max);
        level.encode = 1.0f / level.decode;
        return level;
    }
    level.encode = std::min((target * spec.element->max) / guarded(spec, amax), kLargestFloat);
    level.decode = 1.0f / level.encode;
    return level;
}

SecondLevel second_level_scale(const ElementFormat& element, float amax) {
    QuantSpec spec;
    spec.element = &element;
    spec.scale = ScaleFormat::kUe4m3;
    spec.second_level = true;
    return second_level(spec, amax);
}

TileScale tile_scale(const QuantSpec& spec, std::uint32_t amax_bits, const SecondLevel& level,
                     float raise) {
    TileScale tile;
    if (amax_bits >= kInfinityBits) {
        tile.finite = false;
        tile.scale = from_bits(kQuietNanBits);
        tile.code = spec.scale == ScaleFormat::kFp32 ? 0 : encode_scale(spec.scale, tile.scale);
        return tile;
    }
    const float amax = guarded(spec, from_bits(amax_bits));
    if (is_ue(spec.scale)) {
        tile.code = ue_code(spec, wanted_ue_scale(spec, amax, level) * raise);
        tile.scale = decode_scale(spec.scale, tile.code);
        tile.factor = ue_factor(spec, tile.scale, level);
        return tile;
    }
    const float leveled = amax * level.encode;  // level.encode is 1 without a second level
    if (spec.scale == ScaleFormat::kE8m0) {
        const int exponent =
            to_bits(leveled) == 0 ? -127 : e8m0_exponent(*spec.element, spec.rule, leveled);
        tile.scale = power_of_two(exponent);
        tile.code = static_cast<std::uint8_t>(exponent + 127);
    } else if (spec.scale == ScaleFormat::kFp32) {
        tile.scale = fp32_scale(*spec.element, leveled, spec.rule);
    }
    if (spec.second_level) {
        tile.factor = std::min(1.0f / (tile.scale * level.decode), kLargestFloat);
    } else {
        tile.factor = spec.order == ScaleOrder::kReciprocal ? 1.0f / tile.scale : tile.scale;
    }
    return tile;
}

float scaled(const QuantSpec& spec, const TileScale& tile, float x) {
    if (x == 0.0f) return x;  // whatever the factor, which may be Inf
    if (spec.order == ScaleOrder::kGgml) return tile.factor == 0.0f ? 0.0f : x / tile.factor;
    if (spec.guard && spec.scale == ScaleFormat::kE8m0) return (x * kMxGuard) / tile.factor;
    if (!multiplies(spec)) return x / tile.factor;
    return std::clamp(x * tile.factor, spec.element->lowest, spec.element->max);
}

float unscaled(const QuantSpec& spec, float q, float scale, float decode) {
    if (spec.order == ScaleOrder::kTorchao) return q * (scale * decode);
    const float value = spec.second_level ? (q * scale) * decode : q * scale;
    return spec.guard && spec.scale == ScaleFormat::kE8m0 ? value / kMxGuard : value;
}

std::uint32_t encode_scaled(const QuantSpec& spec, const TileScale& tile, float x,
                            std::uint16_t noise) {
    const float y = scaled(spec, tile, x);
    if (spec.order != ScaleOrder::kGgml) {
        return encode(*spec.element, y, spec.rounding, noise, spec.noise_bits);
    }
    const std::uint32_t code = encode(*spec.element, y, Rounding::kNearestZero);
    return decode(*spec.element, code) == 0.0f ? 0 : code;
}

}  // namespace subbyte::formats
