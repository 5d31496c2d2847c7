// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Faults that users of comparable programs met, at the level of one quantised matrix.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "subbyte/formats/metrics.h"
#include "subbyte/kernels/gemm/gemm.h"
#include "subbyte/kernels/quantize/quantize.h"

namespace subbyte::kernels {
namespace {

using formats::MatrixView;
using formats::PackedView;
using formats::parse_spec;
using formats::QuantSpec;

struct Result {
    std::vector<std::uint8_t> codes, scale_codes;
    std::vector<float> scales, values;
    float global = 1.0f;
    PackedView view() { return {codes.data(), scales.data(), scale_codes.data(), &global}; }
};

Result round_trip(const MatrixView& source, const QuantSpec& spec) {
    Result result;
    result.codes.resize(
        static_cast<std::size_t>(source.rows * formats::row_bytes(spec, source.cols)), 0xAA);
    const auto tiles =
        static_cast<std::size_t>(formats::TileGrid(spec.tile, source.rows, source.cols).count());
    result.scales.resize(tiles);
    result.scale_codes.resize(tiles);
    result.values.resize(static_cast<std::size_t>(source.rows * source.cols));
    quantize(source, spec, {5, 6, 7, 8}, result.view());
    dequantize(result.view(), spec, source.rows, source.cols, result.values.data());
    return result;
}

std::vector<std::string> specs() {
    std::vector<std::string> all{"mxfp8",    "mxfp4",    "nvfp4", "mxfp8:sr",
                                 "mxfp4:sr", "nvfp4:sr", "bf16"};
    for (const char* element : {"e4m3", "e5m2", "e2m1", "int8", "int4"}) {
        for (const char* tile : {"tensor", "row", "1x16", "1x32", "1x128", "128x128"}) {
            for (const char* end : {":f32", ":f32:sr", ":e8m0/rceil", ":ue4m3+f32"}) {
                all.push_back(std::string(element) + ":" + tile + end);
            }
        }
    }
    return all;
}

TEST(CornerCases, BlockOfZerosStaysZeroAmongHealthyAndTinyRows) {
    std::vector<float> x(3 * 256);
    std::fill(x.begin(), x.begin() + 256, 1.0f);
    x[256 + 7] = -0.0f;
    std::fill(x.begin() + 512, x.end(), 1e-30f);
    for (const std::string& text : specs()) {
        const QuantSpec spec = parse_spec(text);
        const Result result = round_trip({x.data(), 3, 256, 256, 1}, spec);
        const bool has_sign = spec.element->kind == formats::ElementKind::kFloat;
        // One step of the coarsest format here (INT4 and E2M1 near 1) plus the rounding of the
        // scale.
        const float one_rounding = spec.scale == formats::ScaleFormat::kFp32 ? 1e-6f : 0.34f;
        // Row 2 has scales of its own unless a tile or a second level is shared with row 0.
        const bool own_scale = !spec.is_scaled() || (spec.tile != formats::Tile::tensor() &&
                                                     spec.tile.rows < 3 && !spec.second_level);
        for (std::size_t c = 0; c < 256; ++c) {
            EXPECT_NEAR(result.values[c], 1.0f, one_rounding) << text;
            const float zero = result.values[256 + c];
            EXPECT_EQ(zero, 0.0f) << text;
            EXPECT_EQ(std::signbit(zero), has_sign && c == 7) << text << " column " << c;
            const float tiny = result.values[512 + c];
            if (own_scale) {
                EXPECT_NEAR(tiny, 1e-30f, 1e-30f * std::max(one_rounding, 0.005f)) << text;
            } else {
                EXPECT_EQ(tiny, 0.0f) << text;
            }
        }
    }
}

TEST(CornerCases, ZeroOperandsGiveZeroProductsAndZeroError) {
    const std::vector<float> zeros(4 * 40, 0.0f), ones(3 * 40, 1.0f);
    for (const char* text :
         {"fp8", "fp4:sr", "mxfp4", "nvfp4", "int8:row:f32", "int4:tensor:f32"}) {
        const QuantSpec spec = parse_spec(text);
        Result a = round_trip({zeros.data(), 4, 40, 40, 1}, spec);
        Result b = round_trip({ones.data(), 3, 40, 40, 1}, spec);
        std::vector<float> d(12, 7.0f);
        gemm({4, 3, 40, spec, spec}, {a.view(), b.view(), d.data()});
        EXPECT_EQ(d, std::vector<float>(12, 0.0f)) << text;
        const auto error =
            formats::measure_error({zeros.data(), 4, 40, 40, 1}, spec, a.view(), a.values.data());
        EXPECT_EQ(error.relative_error, 0.0) << text;
        EXPECT_EQ(error.nonfinite, 0) << text;
    }
}

TEST(CornerCases, LastPartialBlockHasAScaleOfItsOwn) {
    for (float padding : {1e30f, std::nanf("")}) {
        for (std::int64_t rows : {1, 3}) {
            const std::int64_t stride = 256, cols = 130;
            std::vector<float> big(static_cast<std::size_t>(rows * stride), padding);
            for (std::int64_t r = 0; r < rows; ++r) {
                float* const row = big.data() + r * stride;
                for (std::int64_t c = 0; c < 128; ++c) row[c] = static_cast<float>(c % 13) * 10.0f;
                row[128] = 0.5f;
                row[129] = -0.25f;
            }
            Result view =
                round_trip({big.data(), rows, cols, stride, 1}, parse_spec("e2m1:1x128:f32"));
            for (std::int64_t r = 0; r < rows; ++r) {
                const auto end = static_cast<std::size_t>((r + 1) * cols);
                EXPECT_EQ(view.values[end - 2], 0.5f);
                EXPECT_EQ(view.values[end - 1], -0.25f);
                EXPECT_EQ(view.scales[static_cast<std::size_t>(2 * r + 1)], 0.083333336f);
            }
        }
    }
}

TEST(CornerCases, UnusedNibbleOfAnOddRowIsZero) {
    const std::vector<float> x(3 * 129, -6.0f);
    for (std::int64_t cols : {1, 15, 17, 31, 33, 127, 129}) {
        for (const char* text :
             {"e2m1:1x16:f32", "e2m1:128x128:f32:sr", "mxfp4", "nvfp4", "int4:1x5:f32"}) {
            const QuantSpec spec = parse_spec(text);
            const Result result = round_trip({x.data(), 3, cols, cols, 1}, spec);
            const std::int64_t stride = formats::row_bytes(spec, cols);
            EXPECT_EQ(stride, (cols + 1) / 2);
            for (std::int64_t r = 0; r < 3; ++r) {
                const std::uint8_t last =
                    result.codes[static_cast<std::size_t>((r + 1) * stride - 1)];
                EXPECT_EQ(last >> 4, 0) << text << " " << cols;
                EXPECT_NE(last & 15, 0) << text << " " << cols;
            }
        }
    }
}

TEST(CornerCases, GemmOfRaggedViewsEqualsThatOfTheCopies) {
    const std::int64_t m = 5, n = 7, k = 130, stride = 200;
    std::vector<float> a_big(static_cast<std::size_t>(m * stride), 1e30f), a_copy;
    std::vector<float> b_big(static_cast<std::size_t>(n * stride), std::nanf("")), b_copy;
    const auto fill = [&](std::vector<float>& big, std::vector<float>& copy, std::int64_t rows) {
        for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t c = 0; c < k; ++c) {
                const auto at = static_cast<std::uint64_t>(r * k + c);
                const float value = static_cast<float>(noise_bits16({9, 0, 0, 0}, at)) - 32768.0f;
                big[static_cast<std::size_t>(r * stride + c)] = value;
                copy.push_back(value);
            }
        }
    };
    fill(a_big, a_copy, m);
    fill(b_big, b_copy, n);
    for (const char* text :
         {"e2m1:1x128:f32", "e4m3:128x128:f32", "mxfp4", "nvfp4", "int8:1x32:f32"}) {
        const QuantSpec spec = parse_spec(text);
        Result a_view = round_trip({a_big.data(), m, k, stride, 1}, spec);
        Result b_view = round_trip({b_big.data(), n, k, stride, 1}, spec);
        Result a = round_trip({a_copy.data(), m, k, k, 1}, spec);
        Result b = round_trip({b_copy.data(), n, k, k, 1}, spec);
        std::vector<float> of_views(static_cast<std::size_t>(m * n)), of_copies(of_views);
        gemm({m, n, k, spec, spec}, {a_view.view(), b_view.view(), of_views.data()});
        gemm({m, n, k, spec, spec}, {a.view(), b.view(), of_copies.data()});
        EXPECT_EQ(of_views, of_copies) << text;
        for (float value : of_views) EXPECT_TRUE(std::isfinite(value)) << text;
    }
}

}  // namespace
}  // namespace subbyte::kernels
