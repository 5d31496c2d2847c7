// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "subbyte/formats/element.h"

namespace subbyte::formats {

// Format of the scale of one tile.
enum class ScaleFormat {
    kNone,  // the element stands alone (bf16, fp32): no tile, no scale
    kFp32,
    kE8m0,    // power of two, code = exponent + 127, 255 = NaN (OCP MX v1.0)
    kUe4m3,   // codes 0..127 of E4M3: up to 448, 127 = NaN
    kUe5m3,   // bias 15, up to 114688, 255 = NaN (CUDA's __nv_fp8_ue5m3)
    kUe5m3h,  // bias 15, top exponent reserved: up to 61440, 248..255 = NaN
};

// How a scale is chosen from the amax of its tile. The first four make a power of two (OCP MX v1.0,
// section 6.3, and its variants).
enum class ScaleRule {
    kDefault,  // amax / max rounded to nearest even in the scale format; E8M0: floor
    kFloor,    // 2^(floor(log2 amax) - emax)
    kCeil,     // 2^(ceil(log2 amax) - emax)
    kRceil,    // smallest power of two with amax <= max * scale
    kEven,     // amax rounded to the element's mantissa, then floor
    kNearest,  // power of two nearest to amax / max, a tie to the even code
    kUp,       // amax / max rounded up in the scale format, so that nothing is cut off
};

std::string_view scale_name(ScaleFormat format);   // "f32", "e8m0", ...; "" for kNone
std::string_view scale_rule_name(ScaleRule rule);  // "floor", ...; "" for kDefault

// The formats of a spec, and the rules that may be written for one of them.
std::span<const ScaleFormat> scale_formats();
std::span<const ScaleRule> scale_rules(ScaleFormat format);

// UE4M3 and both UE5M3: scales with a mantissa in one byte.
bool is_ue(ScaleFormat format);

float scale_max(ScaleFormat format);  // largest number of a format with codes

// Value of a scale code. Exact; NaN for the NaN codes.
float decode_scale(ScaleFormat format, std::uint8_t code);

// Code of a scale >= 0, rounded and saturated; E8M0 has no zero and takes 2^-127 for it. NaN gives
// the NaN code. `noise`: 16 bits, for stochastic rounding (not E8M0). Error kUsage for a negative
// scale.
std::uint8_t encode_scale(ScaleFormat format, float scale,
                          Rounding rounding = Rounding::kNearestEven, std::uint16_t noise = 0);

// The same without saturation (UE formats): what rounds past the largest number becomes NaN.
std::uint8_t encode_scale_unsaturated(ScaleFormat format, float scale);

// Exponent of the E8M0 scale for a tile with this finite amax > 0, clamped to [-127, 127]. Exact
// for every float, also below the normal range. kDefault means kFloor. For integers the mantissa
// that kEven rounds to has bits - 2 digits (MXINT8's 6).
int e8m0_exponent(const ElementFormat& element, ScaleRule rule, float amax);

// FP32 scale of a tile with this finite amax >= 0: amax / max in float32, or the power of two of
// `rule` (floor, ceil, rceil), and 2^-149 where that would be zero. For a zero tile 1, or 0 when
// the element has no zero of its own.
float fp32_scale(const ElementFormat& element, float amax, ScaleRule rule = ScaleRule::kDefault);

}  // namespace subbyte::formats
