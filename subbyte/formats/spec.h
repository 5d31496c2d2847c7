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

// The order of operations around a scale. Published programs differ in the last bit.
enum class ScaleOrder {
    kStandard,    // (amax / max) * encode; x / scale, or x * r under a second level (TE's te_a)
    kTeB,         // amax * (encode * (1 / max)): TransformerEngine's other order
    kTorchao,     // (amax / max) / level, at least 2^-6; x * ((1 / level) / scale)
    kGgml,        // no second level; elements: ties toward zero, -0 becomes 0; scales: ties away
    kReciprocal,  // FP32 scales: x * (1 / scale)
};

// Which of two scales a block gets (Four over Six, 2512.02010): one that maps its amax to 6, or one
// that maps it to 4, whichever has the smaller error.
enum class FourOverSix { kOff, kMse, kMae };

// Random Hadamard transform along the columns before quantisation, undone by decoding; see
// hadamard.h. `fresh` signs come from the noise address, the others are the same for every run.
struct Rotation {
    int size = 0;  // 16, 32, 64 or 128; 0: none
    bool fresh = false;
    friend bool operator==(const Rotation&, const Rotation&) = default;
};

// How one operand is quantised. A value type; equal specs compare equal.
//
// Text form (parse_spec and to_string are inverse):
//   <element>:<tile>:<scale>[/<rule>][+f32[@<tile>]][:<option>...]
//   e4m3:1x128:f32   e2m1:1x32:e8m0/floor   e2m1:1x16:ue4m3+f32   int4:1x16:ue4m3+f32:rht16:sr
// `bf16` and `fp32` stand alone: no tile, no scale. `fp32` (element == nullptr) means "left as it
// is". `bf16:sr` is the one unscaled form that takes an option.
//   tile    tensor | row | RxC with 1 <= R, C <= 2^20
//   rule    e8m0: floor (the default), ceil, rceil, even, nearest; f32: floor, ceil, rceil;
//           ue4m3, ue5m3, ue5m3h: up
//   +f32    an FP32 second level above the tile scales, one for the tensor, or with @RxC one for
//           each patch of that size (whole tiles)
//   options rounding: sr, sr1 ... sr15 (random bits; sr means 16), away, zero, up, down
//           rht16, rht32, rht64, rht128, and with fresh signs rht16fresh, ...
//           guard      head room for sr: amax * 17/16 (ue scales), x * 3/4 (e8m0/floor)
//           4over6, 4over6mae      e2m1 with a ue scale
//           mseden                 MS-EDEN: with rht and a ue scale +f32 (Quartet II, 2601.22813)
//           teb, torchao, ggml, recip   orders of operations
// Abbreviations: see named_specs().
struct QuantSpec {
    const ElementFormat* element = nullptr;
    Tile tile{};
    ScaleFormat scale = ScaleFormat::kNone;
    ScaleRule rule = ScaleRule::kDefault;
    bool second_level = false;  // FP32 scale above the tile scales (NVFP4)
    Rounding rounding = Rounding::kNearestEven;
    // What only some specs have; see is_basic().
    Tile level_tile{};  // patch that shares one second-level scale
    int noise_bits = kMostNoiseBits;
    Rotation rotation{};
    ScaleOrder order = ScaleOrder::kStandard;
    FourOverSix four_over_six = FourOverSix::kOff;
    bool guard = false;
    bool ms_eden = false;

    bool is_fp32() const { return element == nullptr; }
    bool is_scaled() const { return scale != ScaleFormat::kNone; }
    bool stochastic() const { return rounding == Rounding::kStochastic; }
    // Whether the codes depend on the noise address.
    bool uses_noise() const { return stochastic() || rotation.fresh || ms_eden; }
    // Decoding is (code value * tile scale) * one second-level scale of the whole tensor (or none),
    // and nothing but the rounding is unusual: no rotation, no guard, no other order of operations.
    bool is_basic() const;
    friend bool operator==(const QuantSpec&, const QuantSpec&) = default;
};

// Reads a spec or one of the abbreviations, each also with options appended. Error kUsage that
// shows the text and points at the first wrong character.
QuantSpec parse_spec(std::string_view text);

struct NamedSpec {
    std::string_view name;
    std::string_view text;  // what it abbreviates
};

// The abbreviations, in the order of the documentation.
std::span<const NamedSpec> named_specs();

// Canonical text; parse_spec(to_string(s)) == s.
std::string to_string(const QuantSpec& spec);

// Number of second-level scales of a rows x cols operand: 0 without a second level, 1 for the
// whole tensor (an empty one too), else one per patch, row-major over their grid.
std::int64_t level_count(const QuantSpec& spec, std::int64_t rows, std::int64_t cols);

// Storage cost in bits per element of a rows x cols operand: codes, scales and second level.
double bits_per_value(const QuantSpec& spec, std::int64_t rows, std::int64_t cols);

}  // namespace subbyte::formats
