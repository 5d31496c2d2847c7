// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "subbyte/kernels/quantize/quantize.h"

// Operands, and the comparison of a kernel with the reference.
namespace subbyte::kernels {

using formats::MatrixView;
using formats::PackedView;
using formats::parse_spec;
using formats::QuantSpec;

// Forces one kernel for quantise and dequantise while it lives.
class Forced {
public:
    explicit Forced(const std::string& name) {
        force_kernels("quantize=" + name + ",dequantize=" + name);
    }
    ~Forced() { force_kernels(""); }
};

inline std::vector<std::string> vector_kernels() {
    std::vector<std::string> names;
    for (const Candidate& candidate : explain_quantize(parse_spec("fp8"), false)) {
        if (candidate.isa != Isa::kReference && candidate.isa <= max_isa()) {
            names.emplace_back(candidate.kernel);
        }
    }
    return names;
}

// Numbers of the kind that trainings see: several magnitudes, exact grid values and ties among
// them.
inline float ordinary(std::uint64_t index) {
    const PhiloxBlock bits = noise_block({7, 0, 0, 0}, index);
    const float unit = static_cast<float>(static_cast<std::int32_t>(bits[0])) * 0x1p-31f;
    switch (bits[1] % 8) {
        case 0: return unit * 0x1p-20f;
        case 1: return std::round(unit * 16.0f) * 0.25f;  // grid points and ties of small formats
        case 2: return unit * 100.0f;
        default: return unit;
    }
}

inline std::vector<float> ordinary_matrix(std::int64_t count, std::uint64_t seed = 0) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = ordinary(i + (seed << 32));
    return values;
}

struct Packed {
    std::vector<std::uint8_t> codes, scale_codes;
    std::vector<float> scales, levels;
    std::vector<std::uint32_t> signs{1, 2, 3, 4};
    PackedView view() {
        return {codes.data(), scales.data(), scale_codes.data(), levels.data(), signs.data()};
    }

    // Memory is filled with a pattern, so that a byte nobody wrote shows up as a difference.
    Packed(const QuantSpec& spec, std::int64_t rows, std::int64_t cols)
        : codes(static_cast<std::size_t>(rows * formats::row_bytes(spec, cols)), 0xAA),
          levels(static_cast<std::size_t>(
                     std::max<std::int64_t>(1, formats::level_count(spec, rows, cols))),
                 -1.0f) {
        if (!spec.is_scaled()) return;
        const auto tiles =
            static_cast<std::size_t>(formats::TileGrid(spec.tile, rows, cols).count());
        if (spec.scale == formats::ScaleFormat::kFp32) {
            scales.resize(tiles, -1.0f);
        } else {
            scale_codes.resize(tiles, 0xAA);
        }
    }
};

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
        const bool equal = std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i]);
        if (!equal && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
    }
    return a.size() == b.size();
}

inline constexpr NoiseAddress kNoise{0x123456789ABCDEF0, 3, 5, 9};

// What the reference makes of a matrix.
struct Expected {
    MatrixView source;
    std::string text;
    QuantSpec spec = parse_spec(text);
    Packed packed{spec, source.rows, source.cols};
    std::vector<float> values;

    Expected(const MatrixView& matrix, std::string spec_text)
        : source(matrix), text(std::move(spec_text)) {
        values.resize(static_cast<std::size_t>(source.rows * source.cols));
        formats::quantize_reference(source, spec, kNoise, packed.view());
        formats::dequantize_reference(packed.view(), spec, source.rows, source.cols, values.data());
    }
};

// Quantises with `kernel`; every output must have the bits of the reference.
inline void expect_equal(Expected& expected, const std::string& kernel, const std::string& where) {
    const MatrixView& source = expected.source;
    const QuantSpec& spec = expected.spec;
    Packed actual(spec, source.rows, source.cols);
    const Forced forced(kernel);
    quantize(source, spec, kNoise, actual.view());
    const std::string what = kernel + " " + expected.text + " " + where + " " +
                             std::to_string(source.rows) + "x" + std::to_string(source.cols);
    EXPECT_EQ(actual.codes, expected.packed.codes) << what;
    EXPECT_TRUE(same_bits(actual.scales, expected.packed.scales)) << what;
    EXPECT_EQ(actual.scale_codes, expected.packed.scale_codes) << what;
    EXPECT_EQ(actual.levels, expected.packed.levels) << what;
    EXPECT_EQ(actual.signs, expected.packed.signs) << what;

    std::vector<float> decoded(expected.values.size());
    dequantize(expected.packed.view(), spec, source.rows, source.cols, decoded.data());
    EXPECT_TRUE(same_bits(decoded, expected.values)) << what << " decoded";
}

inline void expect_equal(const MatrixView& source, const std::string& text,
                         const std::string& kernel, const std::string& where) {
    Expected expected(source, text);
    expect_equal(expected, kernel, where);
}

// The same for all vector kernels.
inline void expect_all_equal(const MatrixView& source, const std::string& text,
                             const std::string& where) {
    Expected expected(source, text);
    for (const std::string& kernel : vector_kernels()) expect_equal(expected, kernel, where);
}

inline MatrixView contiguous(const std::vector<float>& x, std::int64_t rows, std::int64_t cols) {
    return {x.data(), rows, cols, cols, 1};
}

}  // namespace subbyte::kernels
