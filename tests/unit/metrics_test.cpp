// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "subbyte/core/parallel.h"

namespace subbyte::formats {
namespace {

QuantizationError measure(const std::vector<float>& x, std::int64_t rows, const char* text) {
    const QuantSpec spec = parse_spec(text);
    const auto cols = static_cast<std::int64_t>(x.size()) / rows;
    const auto tiles = static_cast<std::size_t>(TileGrid(spec.tile, rows, cols).count());
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * row_bytes(spec, cols)));
    std::vector<float> scales(tiles), decoded(x.size());
    std::vector<std::uint8_t> scale_codes(tiles);
    float global = 1.0f;
    const PackedView packed{codes.data(), scales.data(), scale_codes.data(), &global};
    const MatrixView source{x.data(), rows, cols, cols, 1};
    quantize_reference(source, spec, {}, packed);
    dequantize_reference(packed, spec, rows, cols, decoded.data());
    return measure_error(source, spec, packed, decoded.data());
}

TEST(Metrics, NumbersOfASmallBlock) {
    // Scale 1, so codes are the elements' own grid: 7 -> 6 (cut off), -5 -> -4, 0.2 -> 0
    // (vanishes).
    const auto error = measure({7.0f, -5.0f, 0.2f, 0.0f}, 1, "e2m1:1x32:e8m0/floor");
    EXPECT_DOUBLE_EQ(error.max_abs_error, 1.0);
    EXPECT_NEAR(error.error_norm, std::sqrt(1.0 + 1.0 + 0.04), 1e-7);
    EXPECT_NEAR(error.source_norm, std::sqrt(49.0 + 25.0 + 0.04), 1e-6);
    EXPECT_NEAR(error.relative_error, error.error_norm / error.source_norm, 1e-12);
    EXPECT_NEAR(error.sqnr_db, -20 * std::log10(error.relative_error), 1e-9);
    EXPECT_DOUBLE_EQ(error.saturated_share, 0.25);
    EXPECT_DOUBLE_EQ(error.underflow_share, 0.25);
    EXPECT_EQ(error.nonfinite, 0);
}

TEST(Metrics, CodesOfEveryWidthAreRecognisedAsTheLargest) {
    // 31 is beyond the 28 of e3m2 and -31 beyond its lowest; floor gives the scale 1.
    const auto fp6 = measure({31.0f, -31.0f, 28.0f, 1.0f}, 1, "mxfp6e3m2");
    EXPECT_DOUBLE_EQ(fp6.saturated_share, 0.5);
    // -2 is a code of mxint8full and not one of mxint8.
    EXPECT_DOUBLE_EQ(measure({1.0f, -1.999f}, 1, "mxint8").saturated_share, 0.5);
    EXPECT_DOUBLE_EQ(measure({1.0f, -1.999f}, 1, "mxint8full:1x32:e8m0").saturated_share, 0.0);
    // Under a rotation nothing is counted.
    EXPECT_DOUBLE_EQ(measure({31.0f, -31.0f, 28.0f, 1.0f}, 1, "mxfp6e3m2:rht16").saturated_share,
                     0.0);
}

TEST(Metrics, LosslessIsInfiniteAndZeroIsZero) {
    const auto exact = measure({6.0f, 3.0f, -1.5f, 0.5f}, 1, "e2m1:tensor:f32");
    EXPECT_EQ(exact.relative_error, 0.0);
    EXPECT_EQ(exact.sqnr_db, std::numeric_limits<double>::infinity());
    EXPECT_EQ(exact.saturated_share, 0.0);
    const auto zero = measure({0.0f, -0.0f}, 1, "nvfp4");
    EXPECT_EQ(zero.relative_error, 0.0);
    EXPECT_EQ(zero.underflow_share, 0.0);
}

TEST(Metrics, NonfiniteElementsAreCountedAndLeftOut) {
    const auto error =
        measure({std::numeric_limits<float>::infinity(), 1.0f, 6.0f, 0.1f}, 2, "e2m1:row:f32");
    EXPECT_EQ(error.nonfinite, 2);  // the whole first row decodes to NaN
    EXPECT_NEAR(error.source_norm, std::sqrt(36.01), 1e-6);
    EXPECT_DOUBLE_EQ(error.underflow_share, 0.5);
    EXPECT_TRUE(std::isfinite(error.relative_error));
}

TEST(Metrics, IntegersSaturateOnBothSides) {
    for (const char* text : {"int4:1x32:e8m0/floor", "int8:1x32:e8m0/floor"}) {
        const QuantSpec spec = parse_spec(text);
        const float limit = spec.element->max + 0.9f;
        EXPECT_DOUBLE_EQ(measure({limit, -limit, 1.0f, 2.0f}, 1, text).saturated_share, 0.5)
            << text;
    }
}

TEST(Metrics, UnscaledFormatsHaveNoSaturation) {
    const auto error = measure({1.0f, 1.001f, 3.0f, 4.0f}, 2, "bf16");
    EXPECT_EQ(error.saturated_share, 0.0);
    EXPECT_GT(error.relative_error, 0.0);
    EXPECT_LT(error.relative_error, 0x1p-8);
}

TEST(Metrics, SumsDoNotDependOnHowRowsAreSplit) {
    std::vector<float> x(300 * 77);
    for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>(noise_bits16({1, 0, 0, 0}, i)) - 30000.0f;
    }
    const auto whole = measure(x, 300, "fp8");
    for (std::int64_t piece : {1, 7, 64}) {
        set_parallel_for([piece](std::int64_t count, std::int64_t,
                                 const std::function<void(std::int64_t, std::int64_t)>& body) {
            for (std::int64_t i = 0; i < count; i += piece) body(i, std::min(count, i + piece));
        });
        const auto split = measure(x, 300, "fp8");
        set_parallel_for(nullptr);
        EXPECT_EQ(split.relative_error, whole.relative_error);
        EXPECT_EQ(split.error_norm, whole.error_norm);
        EXPECT_EQ(split.source_norm, whole.source_norm);
        EXPECT_EQ(split.underflow_share, whole.underflow_share);
    }
}

}  // namespace
}  // namespace subbyte::formats
