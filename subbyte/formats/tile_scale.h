// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "subbyte/formats/spec.h"

namespace subbyte::formats {

// What every amax is multiplied by first: the head room of `guard` under a ue scale, and mseden's.
float amax_factor(const QuantSpec& spec);

// Second level of a tensor (or patch) whose largest finite tile amax is `amax`:
//   encode = (target * max) / amax, at most FLT_MAX, 1 for amax = 0;   decode = 1 / encode
// (NVIDIA, 2509.25149, appendix B, in TransformerEngine's order). The tile that holds the amax gets
// the scale `target`: 448 for ue scales, 256 where a scale may be raised later (4over6: by 1.5,
// mseden: by its correction), and 1 for e8m0 and f32.
// torchao instead: decode = amax / (target * max), 1 for amax = 0; encode = 1 / decode.
struct SecondLevel {
    float encode = 1.0f, decode = 1.0f;
};
SecondLevel second_level(const QuantSpec& spec, float amax);

// The same for the standard order and target 448.
SecondLevel second_level_scale(const ElementFormat& element, float amax);

// How the elements of one tile are scaled.
struct TileScale {
    float factor = 1.0f;    // multiplier, or divisor (see scaled())
    float scale = 1.0f;     // what is stored; NaN marks the tile
    std::uint8_t code = 0;  // code of `scale`; unused for FP32
    bool finite = true;
};

// `amax_bits` is the largest magnitude in the tile as float bits; anything from Inf's bits up marks
// a tile that holds NaN or Inf. `raise` multiplies what becomes the scale (4over6: 1.5).
TileScale tile_scale(const QuantSpec& spec, std::uint32_t amax_bits, const SecondLevel& level,
                     float raise = 1.0f);

// x as the element's grid wants it; what encode() rounds.
float scaled(const QuantSpec& spec, const TileScale& tile, float x);

// The number that an element's value q stands for, before any rotation is undone. `decode` is the
// second level, 1 without one.
float unscaled(const QuantSpec& spec, float q, float scale, float decode);

// Code of x in a tile; rounding and noise as the spec says.
std::uint32_t encode_scaled(const QuantSpec& spec, const TileScale& tile, float x,
                            std::uint16_t noise);

}  // namespace subbyte::formats
