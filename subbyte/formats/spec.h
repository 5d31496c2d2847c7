// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "subbyte/formats/element.h"
#include "subbyte/formats/rounding.h"
#include "subbyte/formats/scale.h"
#include "subbyte/formats/tile.h"

namespace subbyte::formats {

// How one operand is quantised: element, tile, scale, rounding. A value type; equal specs compare
// equal.
//
// Text form (parse_spec and to_string are inverse):
//   <element>:<tile>:<scale>[/<rule>][+f32][:<option>...]
//   e4m3:1x128:f32   e2m1:1x32:e8m0/floor   e2m1:1x16:ue4m3+f32   e2m1:1x128:f32:sr
// `bf16` and `fp32` stand alone: no tile, no scale. `fp32` (element == nullptr) means "left as it
// is". Tiles: tensor | row | RxC with 1 <= R, C <= 2^20. Options: sr. `bf16:sr` is the one unscaled
// form that takes an option. E8M0 without a rule means floor; FP32 and UE4M3 take no rule; only
// UE4M3 takes +f32. Abbreviations: see named_specs().
struct QuantSpec {
    const ElementFormat* element = nullptr;
    Tile tile{};
    ScaleFormat scale = ScaleFormat::kNone;
    ScaleRule rule = ScaleRule::kDefault;
    bool second_level = false;  // FP32 scale of the whole tensor above the tile scales (NVFP4)
    Rounding rounding = Rounding::kNearestEven;

    bool is_fp32() const { return element == nullptr; }
    bool is_scaled() const { return scale != ScaleFormat::kNone; }
    bool stochastic() const { return rounding == Rounding::kStochastic; }
    friend bool operator==(const QuantSpec&, const QuantSpec&) = default;
};

// Reads a spec or one of the abbreviations (mxfp8, mxfp4, nvfp4, fp8, fp4, each also with options
// appended). Error kUsage that shows the text and points at the first wrong character.
QuantSpec parse_spec(std::string_view text);

struct NamedSpec {
    std::string_view name;
    std::string_view text;  // what it abbreviates
};

// The abbreviations, in the order of the documentation.
std::span<const NamedSpec> named_specs();

// Canonical text; parse_spec(to_string(s)) == s.
std::string to_string(const QuantSpec& spec);

// Storage cost in bits per element of a rows x cols operand: codes, scales and second level.
double bits_per_value(const QuantSpec& spec, std::int64_t rows, std::int64_t cols);

}  // namespace subbyte::formats
