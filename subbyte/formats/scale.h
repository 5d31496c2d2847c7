// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "subbyte/formats/element.h"

namespace subbyte::formats {

// Format of the scale of one tile.
enum class ScaleFormat {
    kNone,  // the element stands alone (bf16, fp32): no tile, no scale
    kFp32,
    kE8m0,   // power of two, code = exponent + 127, 255 = NaN (OCP MX v1.0)
    kUe4m3,  // codes 0..127 of E4M3
};

// How an E8M0 scale is chosen from the amax of its tile (OCP MX v1.0, section 6.3, and its
// variants).
enum class ScaleRule {
    kDefault,  // FP32 and UE4M3: amax / max, rounded to nearest even
    kFloor,    // 2^(floor(log2 amax) - emax)
    kCeil,     // 2^(ceil(log2 amax) - emax)
    kRceil,    // smallest power of two with amax <= max * scale
    kEven,     // amax rounded to the element's mantissa, then floor
};

std::string_view scale_name(ScaleFormat format);   // "f32", "e8m0", "ue4m3"; "" for kNone
std::string_view scale_rule_name(ScaleRule rule);  // "floor", ...; "" for kDefault

// Value of a scale code (E8M0, UE4M3). Exact; NaN for the NaN code.
float decode_scale(ScaleFormat format, std::uint8_t code);

// Code of a positive scale: E8M0 needs a power of two (error kUsage otherwise); UE4M3 rounds to
// nearest even and saturates at 448. NaN gives the NaN code.
std::uint8_t encode_scale(ScaleFormat format, float scale);

// Exponent of the E8M0 scale for a tile with this finite amax > 0, clamped to [-127, 127]. Exact
// for every float, also below the normal range. kDefault means kFloor. For integers the mantissa
// that kEven rounds to has bits - 2 digits (MXINT8's 6 for INT8).
int e8m0_exponent(const ElementFormat& element, ScaleRule rule, float amax);

// FP32 scale of a tile with this finite amax >= 0: amax / max in float32, and 2^-149 where the
// quotient would round to zero. For a zero tile 1, or 0 when the element has no zero of its own.
float fp32_scale(const ElementFormat& element, float amax);

}  // namespace subbyte::formats
