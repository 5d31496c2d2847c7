// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Scales of tiles from their amax; the vector form of formats::tile_scale().
// Written once in the vocabulary of simd/*-inl.h, which must be included before; internal linkage,
// so that each instruction set gets its own copy.
#pragma once

#include <cstdint>

#include "subbyte/kernels/quantize/encode-inl.h"

namespace subbyte::kernels {
namespace {

// Everything a tile can be told about, kLanes tiles at once. `finite` masks tiles without NaN and
// Inf.
struct ScaleLanes {
    F scale, reciprocal, reciprocal_low;
    I scaling, code;
};

inline I scaling_lanes(Scaling scaling) { return set(static_cast<std::uint32_t>(scaling)); }

// s = amax / max, 1 for a zero tile, at least 2^-149.
inline ScaleLanes fp32_lanes(const ScaleProblem& problem, I amax) {
    const I quotient = max_unsigned(bits(div(floats(amax), set(problem.max))), set(1u));
    const I one = bits(set(1.0f));
    const I s = merge(equal(amax, set(0u)), one, quotient);
    const F reciprocal = div(floats(one), floats(s));
    const F low = mul(neg_mul_add(reciprocal, floats(s), floats(one)), reciprocal);
    const I far = or_(greater(s, bits(set(0x1p60f))), greater(bits(set(0x1p-60f)), s));
    const I scaling =
        merge(far, scaling_lanes(Scaling::kDivide), scaling_lanes(Scaling::kDivideByReciprocal));
    return {floats(s), reciprocal, low, scaling, set(0u)};
}

// Exponent fields instead of logarithms. As emax >= 2 for every element, all subnormal amax clamp
// to code 0 whatever their own exponent, and the largest code is 253: 2^(127 - code), the
// reciprocal, is exact and normal.
inline ScaleLanes e8m0_lanes(const ScaleProblem& problem, I amax) {
    using formats::ScaleRule;
    const I mantissa = and_(amax, set(0x7FFFFFu));
    I field = shift_right<23>(amax);
    if (problem.rule == ScaleRule::kCeil) field = sub(field, greater(mantissa, set(0u)));
    if (problem.rule == ScaleRule::kRceil) {
        field = sub(field, greater(mantissa, and_(bits(set(problem.max)), set(0x7FFFFFu))));
    }
    if (problem.rule == ScaleRule::kEven) {
        field = shift_right<23>(add(amax, set(1u << (22 - problem.mantissa_digits))));
    }
    const I emax = set(static_cast<std::uint32_t>(problem.emax));
    const I code = sub(max_unsigned(field, emax), emax);
    const I reciprocal = shift_left<23>(sub(set(254u), code));
    const Scaling scaling =
        problem.three_quarters ? Scaling::kMultiplyThreeQuarters : Scaling::kMultiply;
    return {set(0.0f), floats(reciprocal), set(0.0f), scaling_lanes(scaling), code};
}

// The order of operations of formats::tile_scale().
template <class E>
inline ScaleLanes ue_lanes(const ScaleProblem& problem, I amax) {
    const F guarded = min(mul(floats(amax), set(problem.amax_factor)), set(0x1.FFFFFEp127f));
    const F wanted = problem.te_b ? mul(guarded, set(problem.level.encode * (1.0f / problem.max)))
                                  : mul(div(guarded, set(problem.max)), set(problem.level.encode));
    const I code =
        encode_magnitude<E, 0>(mul(wanted, set(problem.raise)), set(0u), set(0u));  // saturates
    const F normal = floats(add(shift_left<20>(code), set((127u - E::kBias) << 23)));
    const F subnormal =
        mul(int_to_float(code), set(1.0f / static_cast<float>(1 << (E::kBias + 2))));
    const F scale = floats(merge(greater(set(8u), code), bits(subnormal), bits(normal)));
    const F factor = div(set(1.0f), mul(scale, set(problem.level.decode)));
    return {scale, min(factor, set(0x1.FFFFFEp127f)), set(0.0f), scaling_lanes(Scaling::kMultiply),
            code};
}

inline ScaleLanes lanes_of(const ScaleProblem& problem, I amax) {
    using formats::ScaleFormat;
    switch (problem.format) {
        case ScaleFormat::kE8m0: return e8m0_lanes(problem, amax);
        case ScaleFormat::kUe4m3: return ue_lanes<Ue4m3>(problem, amax);
        case ScaleFormat::kUe5m3: return ue_lanes<Ue5m3>(problem, amax);
        case ScaleFormat::kUe5m3h: return ue_lanes<Ue5m3h>(problem, amax);
        default: return fp32_lanes(problem, amax);
    }
}

void scale_tiles(const ScaleProblem& problem, const std::uint32_t* amax, std::int64_t count,
                 const TileFactors& tiles) {
    const I nan_code = set(problem.format == formats::ScaleFormat::kUe4m3 ? 0x7Fu : 0xFFu);
    for (std::int64_t i = 0; i < count; i += kLanes) {
        const I given = load_int(amax + i);
        const I finite = greater(set(kInfinity), given);
        const ScaleLanes lanes = lanes_of(problem, and_(given, finite));
        store(tiles.scale + i, floats(merge(finite, bits(lanes.scale), set(0x7FC00000u))));
        store(tiles.reciprocal + i, lanes.reciprocal);
        store(tiles.reciprocal_low + i, lanes.reciprocal_low);
        store_int(tiles.scaling + i, merge(finite, lanes.scaling, scaling_lanes(Scaling::kZero)));
        store_bytes(tiles.codes + i, merge(finite, lanes.code, nan_code));
    }
}

}  // namespace
}  // namespace subbyte::kernels
