// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "subbyte/formats/rounding.h"

namespace subbyte::formats {

enum class ElementKind { kFloat, kInteger };

// What the codes above the largest finite number mean.
enum class Specials {
    kNone,     // every code is a finite number (E2M1, integers)
    kNanOnly,  // the all-ones magnitude is NaN, there is no Inf (E4M3 "fn")
    kIeee,     // top exponent: Inf and NaN as in IEEE 754 (E5M2, BF16)
};

// One row of the table of element formats. Rows live for the whole program; compare by address.
struct ElementFormat {
    std::string_view
        name;  // as in the spec grammar: "e4m3", "e5m2", "e2m1", "int8", "int4", "bf16"
    ElementKind kind;
    int bits;           // storage bits per element: 4, 8 or 16
    int exponent_bits;  // 0 for integers
    int mantissa_bits;  // stored bits below the leading one; 0 for integers
    int bias;
    Specials specials;
    float max;  // largest finite magnitude that quantisation produces

    int code_count() const { return 1 << bits; }
    int emax() const;  // exponent of the largest power of two <= max
};

// All rows, in the order of the documentation.
std::span<const ElementFormat> element_formats();

// Row by name; nullptr when there is none.
const ElementFormat* find_element(std::string_view name);

// Value of a code (low `bits` bits are read). Integers are two's complement. Exact.
float decode(const ElementFormat& format, std::uint32_t code);

// Code of x. Finite values beyond the range and infinities saturate to +-max; integers are
// symmetric
// (-128 and -8 are never produced). Signed zeros keep their sign where the format has one;
// subnormals are exact. NaN gives the format's NaN code, or code 0 when it has none (callers mark
// the tile instead). BF16, which stands without a scale, follows the IEEE conversion instead: it
// does not saturate. `noise` is read only by stochastic rounding: with neighbours lo <= |x| <= hi
// the result is hi exactly when noise < F, F = 65536 * (|x| - lo) / (hi - lo) rounded to the
// nearest integer, ties to even. The probability is right to 2^-17, and what lies below 2^-17 of a
// step never moves.
std::uint32_t encode(const ElementFormat& format, float x, Rounding rounding,
                     std::uint16_t noise = 0);

}  // namespace subbyte::formats
