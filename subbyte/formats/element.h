// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "subbyte/formats/rounding.h"

namespace subbyte::formats {

enum class ElementKind {
    kFloat,    // sign, exponent, mantissa
    kInteger,  // two's complement times 2^-bias
    kLog,      // sign and a table of magnitudes that are powers of a base; code 0 is zero
    kTable,    // a rising table of values, the code is the index
};

// What the codes above the largest finite number mean.
enum class Specials {
    kNone,      // every code is a finite number (E2M1, integers, tables)
    kNanOnly,   // the all-ones magnitude is NaN, there is no Inf ("fn": E4M3)
    kIeee,      // top exponent: Inf and NaN as in IEEE 754 (E5M2, BF16)
    kReserved,  // top exponent reserved: read as NaN, never written but for NaN (UE5M3 scales)
};

// One row of the table of element formats. Rows live for the whole program; compare by address.
struct ElementFormat {
    std::string_view name;  // as in the spec grammar
    ElementKind kind;
    int bits;           // of a code, sign included: 3 ... 8, or 16 (bf16)
    int exponent_bits;  // floats only
    int mantissa_bits;  // floats: stored bits below the leading one
    int bias;           // integers: value = integer * 2^-bias
    Specials specials;
    float max;                        // largest finite magnitude that quantisation produces
    float lowest;                     // smallest finite number that quantisation produces
    std::span<const float> values{};  // kLog: magnitude by code; kTable: value by code

    int code_count() const { return 1 << bits; }
    int emax() const;            // exponent of the largest power of two <= max
    float min_normal() const;    // floats and logarithms; integers and tables: the smallest step
    float min_positive() const;  // the smallest positive number
    bool has_zero() const;       // false for the one table without (ulinear4)
    bool has_negative_zero() const { return kind == ElementKind::kFloat; }
};

// The documented rows, in the order of the documentation. The first five are those that every
// vector kernel knows: e4m3, e5m2, e2m1, int8, int4.
std::span<const ElementFormat> element_formats();

// Row by name; nullptr when there is none. Besides the documented names these are known:
//   e<x>m<y>       1 + x + y <= 8 bits, x >= 1, bias max(1, 2^(x-1) - 1), all codes finite numbers
//   e<x>m<y>fn     the same, but the all-ones magnitude is NaN
//   e<x>m<y>ieee   the same, but the top exponent is Inf and NaN; x >= 2 and y >= 1
// Without a suffix e4m3 means e4m3fn (OCP), e5m2 means e5m2ieee (OCP) and e3m4 means e3m4ieee.
const ElementFormat* find_element(std::string_view name);

// Value of a code (low `bits` bits are read). Exact.
float decode(const ElementFormat& format, std::uint32_t code);

// Code of x. Finite values beyond the range and infinities saturate to max and lowest, whatever the
// rounding; integers are symmetric (-128 and -8 are never produced) unless the name ends in "full".
// Signed zeros keep their sign where the format has one; subnormals are exact. NaN gives the
// format's NaN code, or code 0 when it has none (callers mark the tile instead). BF16, which stands
// without a scale, follows the IEEE conversion instead: it does not saturate.
// Tables break ties upward, as torchao's 8-bit optimizers do; every other format by `rounding`.
//
// `noise` is read only by stochastic rounding, and of it the top `noise_bits` (1 ... 16) bits n:
// with neighbours lo <= |x| <= hi the result is hi exactly when n < F, where F is
// 2^noise_bits * (|x| - lo) / (hi - lo) rounded to the nearest integer, ties to even. The
// probability is right to 2^-(noise_bits + 1), and what lies below that part of a step never moves.
// Tables take the neighbours of x itself, not of |x|.
std::uint32_t encode(const ElementFormat& format, float x, Rounding rounding,
                     std::uint16_t noise = 0, int noise_bits = kMostNoiseBits);

// Conversion without saturation, as in ml_dtypes and ONNX: what rounds (nearest even) past the
// largest finite number, and an infinity, becomes Inf where the format has one and NaN otherwise,
// sign kept. Floats with specials only (error kInternal).
std::uint32_t encode_unsaturated(const ElementFormat& format, float x);

}  // namespace subbyte::formats
