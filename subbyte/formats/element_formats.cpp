// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of element formats and the formats that are made from their numbers.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "subbyte/formats/element.h"
#include "subbyte/formats/element_tables.h"
#include "subbyte/formats/float_bits.h"

namespace subbyte::formats {
namespace {

// Largest finite magnitude of a float format.
float largest(int exponent_bits, int mantissa_bits, int bias, Specials specials) {
    const std::uint32_t all_ones = (1u << (exponent_bits + mantissa_bits)) - 1;
    const std::uint32_t top_exponent = ((1u << exponent_bits) - 1) << mantissa_bits;
    const std::uint32_t code = specials == Specials::kNone      ? all_ones
                               : specials == Specials::kNanOnly ? all_ones - 1
                                                                : top_exponent - 1;
    const ElementFormat finite{"",
                               ElementKind::kFloat,
                               exponent_bits + mantissa_bits + 1,
                               exponent_bits,
                               mantissa_bits,
                               bias,
                               Specials::kNone,
                               0.0f,
                               0.0f};
    return decode(finite, code);
}

ElementFormat floating(std::string_view name, int exponent_bits, int mantissa_bits,
                       Specials specials) {
    const int bias = std::max(1, (1 << (exponent_bits - 1)) - 1);
    const float max = largest(exponent_bits, mantissa_bits, bias, specials);
    return {name,
            ElementKind::kFloat,
            1 + exponent_bits + mantissa_bits,
            exponent_bits,
            mantissa_bits,
            bias,
            specials,
            max,
            -max};
}

// `bias` binary digits after the point; `full`: -2^(bits - 1) may appear.
ElementFormat integer(std::string_view name, int bits, int bias, bool full) {
    const float step = power_of_two(-bias);
    const float top = static_cast<float>(1 << (bits - 1)) * step;
    return {name,       ElementKind::kInteger,   bits, 0, 0, bias, Specials::kNone,
            top - step, full ? -top : step - top};
}

ElementFormat logarithmic(std::string_view name, int bits, std::span<const float> magnitudes) {
    return {name,
            ElementKind::kLog,
            bits,
            0,
            0,
            0,
            Specials::kNone,
            magnitudes.back(),
            -magnitudes.back(),
            magnitudes};
}

ElementFormat table(std::string_view name, int bits, std::span<const float> values) {
    return {name,          ElementKind::kTable, bits,  0, 0, 0, Specials::kNone,
            values.back(), values.front(),      values};
}

std::vector<ElementFormat> documented() {
    return {
        // Known to the vector kernels; the order is theirs.
        floating("e4m3", 4, 3, Specials::kNanOnly),  // OCP OFP8 v1.0
        floating("e5m2", 5, 2, Specials::kIeee),     // OCP OFP8 v1.0
        floating("e2m1", 2, 1, Specials::kNone),     // OCP MX v1.0, section 5.3.3
        integer("int8", 8, 0, false),
        integer("int4", 4, 0, false),
        floating("bf16", 8, 7, Specials::kIeee),
        floating("e4m3ieee", 4, 3, Specials::kIeee),  // Gaudi 2: 240
        floating("e3m4", 3, 4, Specials::kIeee),      // ml_dtypes: 15.5
        floating("e3m4fn", 3, 4, Specials::kNanOnly),
        floating("e2m3", 2, 3, Specials::kNone),  // OCP MX v1.0, section 5.3.2
        floating("e3m2", 3, 2, Specials::kNone),  // OCP MX v1.0, section 5.3.2
        floating("e1m2", 1, 2, Specials::kNone),
        integer("int8full", 8, 0, true),
        integer("int4full", 4, 0, true),
        integer("mxint8", 8, 6, false),  // OCP MX v1.0, section 5.3.4; microxcaling's range
        integer("mxint8full", 8, 6, true),
        logarithmic("lns8", 8, lns8_magnitudes()),
        logarithmic("lns4", 4, lns4_magnitudes()),
        table("nf4", 4, nf4_values()),
        table("dynamic8", 8, dynamic8_values()),
        table("udynamic8", 8, udynamic8_values()),
        table("dynamic4", 4, dynamic4_values()),
        table("ulinear4", 4, ulinear4_values()),
    };
}

const std::vector<ElementFormat>& documented_formats() {
    static const std::vector<ElementFormat> rows = documented();
    return rows;
}

bool same_numbers(const ElementFormat& a, const ElementFormat& b) {
    return a.kind == b.kind && a.bits == b.bits && a.exponent_bits == b.exponent_bits &&
           a.mantissa_bits == b.mantissa_bits && a.bias == b.bias && a.specials == b.specials;
}

// Every e<x>m<y>[fn|ieee] that has no documented row of its own.
struct Numbered {
    std::vector<std::unique_ptr<std::string>> names;
    std::vector<ElementFormat> rows;

    Numbered() {
        for (int bits = 3; bits <= 8; ++bits) {
            for (int exponent = 1; exponent < bits; ++exponent) {
                add(exponent, bits - 1 - exponent, Specials::kNone, "");
                add(exponent, bits - 1 - exponent, Specials::kNanOnly, "fn");
                if (exponent >= 2 && exponent < bits - 1) {
                    add(exponent, bits - 1 - exponent, Specials::kIeee, "ieee");
                }
            }
        }
    }

    void add(int exponent, int mantissa, Specials specials, const char* suffix) {
        std::string name = fmt::format("e{}m{}{}", exponent, mantissa, suffix);
        const bool taken = std::any_of(documented_formats().begin(), documented_formats().end(),
                                       [&](const ElementFormat& row) { return row.name == name; });
        if (taken) return;
        names.push_back(std::make_unique<std::string>(std::move(name)));
        rows.push_back(floating(*names.back(), exponent, mantissa, specials));
    }
};

}  // namespace

std::span<const ElementFormat> element_formats() { return documented_formats(); }

const ElementFormat* find_element(std::string_view name) {
    const auto named = [&](const ElementFormat& row) { return row.name == name; };
    const auto& rows = documented_formats();
    if (const auto row = std::find_if(rows.begin(), rows.end(), named); row != rows.end()) {
        return &*row;
    }
    static const Numbered numbered;
    const auto made = std::find_if(numbered.rows.begin(), numbered.rows.end(), named);
    if (made == numbered.rows.end()) return nullptr;
    // "e4m3fn" is e4m3: one format, one row.
    const auto twin = std::find_if(rows.begin(), rows.end(), [&](const ElementFormat& row) {
        return same_numbers(row, *made);
    });
    return twin == rows.end() ? &*made : &*twin;
}

int ElementFormat::emax() const { return Magnitude(to_bits(max)).floor_log2(); }

float ElementFormat::min_positive() const {
    switch (kind) {
        case ElementKind::kFloat:
            // The smallest subnormal, or without a mantissa the smallest normal number.
            return power_of_two(1 - bias - mantissa_bits);
        case ElementKind::kInteger: return power_of_two(-bias);
        case ElementKind::kLog: return values[1];
        case ElementKind::kTable: break;
    }
    return *std::upper_bound(values.begin(), values.end(), 0.0f);
}

float ElementFormat::min_normal() const {
    return kind == ElementKind::kFloat ? power_of_two(1 - bias) : min_positive();
}

bool ElementFormat::has_zero() const {
    return decode(*this, encode(*this, 0.0f, Rounding::kNearestEven)) == 0.0f;
}

}  // namespace subbyte::formats
