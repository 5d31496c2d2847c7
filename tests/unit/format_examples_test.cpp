// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The worked examples of docs/formats: codes, scale bytes and values as printed there.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "subbyte/formats/quantize_reference.h"

namespace subbyte::formats {
namespace {

using Bytes = std::vector<std::uint8_t>;

struct Example {
    Bytes codes, scale_codes;
    std::vector<float> scales, values;
    float level = 0;
};

Example quantize(const char* text, const std::vector<float>& x) {
    const QuantSpec spec = parse_spec(text);
    const auto cols = static_cast<std::int64_t>(x.size());
    const auto tiles = static_cast<std::size_t>(TileGrid(spec.tile, 1, cols).count());
    Example q;
    q.codes.resize(static_cast<std::size_t>(row_bytes(spec, cols)));
    q.scale_codes.resize(spec.scale == ScaleFormat::kFp32 ? 0 : tiles);
    q.scales.resize(spec.scale == ScaleFormat::kFp32 ? tiles : 0);
    q.values.resize(x.size());
    const PackedView packed{q.codes.data(), q.scales.data(), q.scale_codes.data(), &q.level};
    quantize_reference({x.data(), 1, cols, cols, 1}, spec, {}, packed);
    dequantize_reference(packed, spec, 1, cols, q.values.data());
    return q;
}

TEST(FormatExamples, Floats) {
    const Example e4m3 = quantize("e4m3:row:f32", {448, 5.3f, -0.3f, 0.0029f});
    EXPECT_EQ(e4m3.codes, (Bytes{0x7E, 0x4B, 0xAA, 0x01}));
    EXPECT_EQ(e4m3.values, (std::vector<float>{448, 5.5f, -0.3125f, 0.001953125f}));
    EXPECT_EQ(quantize("e2m3:row:f32", {7.5f, 1.3f, -0.3f, 0.06f}).codes,
              (Bytes{0x9F, 0x22, 0x02}));
}

TEST(FormatExamples, Integers) {
    const Example int4 = quantize("int4:row:f32", {1.4f, -0.33f, 0.7f, -1.5f});
    EXPECT_EQ(int4.codes, (Bytes{0xE7, 0x93}));
    EXPECT_FLOAT_EQ(int4.scales[0], 0.2142857f);
    EXPECT_FLOAT_EQ(int4.values[1], -0.4285714f);
    const Example mx = quantize("mxint8", {3, -1.7f, 0.01f, 1.99f});
    EXPECT_EQ(mx.scale_codes, Bytes{0x80});
    EXPECT_EQ(mx.codes, (Bytes{0x60, 0xCA, 0x00, 0x40}));
    EXPECT_EQ(mx.values, (std::vector<float>{3, -1.6875f, 0, 2}));
}

TEST(FormatExamples, LogarithmsAndTables) {
    const std::vector<float> x{2, 1.5f, -0.3f, 0.001f, 0};
    const Example lns8 = quantize("lns8:row:f32", x);
    EXPECT_EQ(lns8.codes, (Bytes{0x7F, 0x7C, 0xE9, 0x27, 0x00}));
    EXPECT_NEAR(lns8.values[1], 1.542211, 1e-6);
    EXPECT_NEAR(lns8.values[2], -0.297302, 1e-6);
    const Example nf4 = quantize("nf4:row:f32", x);
    EXPECT_EQ(nf4.codes, (Bytes{0xEF, 0x75, 0x07}));
    EXPECT_NEAR(nf4.values[1], 1.445914, 1e-6);
    EXPECT_NEAR(nf4.values[2], -0.369547, 1e-6);
}

TEST(FormatExamples, MxBlock) {
    const std::vector<float> x{7, -5, 2.5f, -1.25f, 0.75f, 0.25f, -0.2f, 3.5f};
    const Example floor = quantize("mxfp4", x);
    EXPECT_EQ(floor.scale_codes, Bytes{0x7F});
    EXPECT_EQ(floor.codes, (Bytes{0xE7, 0xA4, 0x02, 0x68}));
    const Example rceil = quantize("e2m1:1x32:e8m0/rceil", x);
    EXPECT_EQ(rceil.scale_codes, Bytes{0x80});
    EXPECT_EQ(rceil.codes, (Bytes{0xC6, 0x92, 0x01, 0x48}));
    EXPECT_EQ(rceil.values[0], 8);
}

TEST(FormatExamples, Nvfp4Blocks) {
    const Example q = quantize("e2m1:1x4:ue4m3+f32", {12, 1, -0.75f, 0.1f, 1, -0.5f, 0.3f, 0});
    EXPECT_EQ(q.scale_codes, (Bytes{0x7E, 0x61}));
    EXPECT_EQ(q.codes, (Bytes{0x17, 0x09, 0xD7, 0x04}));
    EXPECT_EQ(q.level, 1.0f / 224.0f);
    EXPECT_FLOAT_EQ(q.values[0], 12.000001f);
    EXPECT_FLOAT_EQ(q.values[4], 0.9642857f);
    EXPECT_FLOAT_EQ(q.values[6], 0.3214286f);
}

TEST(FormatExamples, Rounding) {
    const ElementFormat& e2m1 = *find_element("e2m1");
    for (float x : {2.25f, 4.5f}) {
        const std::uint32_t low = x < 3 ? 4 : 6;
        EXPECT_EQ(encode(e2m1, x, Rounding::kStochastic, 16383), low + 1);
        EXPECT_EQ(encode(e2m1, x, Rounding::kStochastic, 16384), low);
        EXPECT_EQ(encode(e2m1, x, Rounding::kStochastic, 63 << 8, 8), low + 1);
        EXPECT_EQ(encode(e2m1, x, Rounding::kStochastic, 64 << 8, 8), low);
    }
    EXPECT_EQ(decode(e2m1, encode(e2m1, 2.5f, Rounding::kNearestEven)), 2);
    EXPECT_EQ(decode(e2m1, encode(e2m1, 2.5f, Rounding::kNearestAway)), 3);
}

}  // namespace
}  // namespace subbyte::formats
