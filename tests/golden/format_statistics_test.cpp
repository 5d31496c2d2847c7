// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Error statistics of the quantisers and expectations of stochastic rounding. Draws are our own;
// the reference numbers are means over ten seeds of 2^20 samples made with other programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>

#include "subbyte/kernels/quantize/quantize.h"
#include "tests/golden/hex.h"

namespace subbyte {
namespace {

using formats::ElementFormat;
using formats::MatrixView;
using formats::PackedView;
using formats::parse_spec;
using formats::QuantSpec;
using formats::Rounding;

constexpr std::int64_t kRows = 8192, kCols = 128;

// Two standard normal numbers from one Philox block (Box and Muller).
std::pair<double, double> normals(const NoiseAddress& address, std::uint64_t index) {
    const PhiloxBlock bits = noise_block(address, index);
    const double radius = std::sqrt(-2.0 * std::log((bits[0] + 0.5) * 0x1p-32));
    const double angle = 2.0 * std::numbers::pi * bits[1] * 0x1p-32;
    return {radius * std::cos(angle), radius * std::sin(angle)};
}

std::vector<float> draw(const std::string& distribution) {
    std::vector<float> x(static_cast<std::size_t>(kRows * kCols));
    const NoiseAddress address{2024, 0, 0, 0};
    for (std::size_t i = 0; i < x.size(); ++i) {
        const auto [a, b] = normals(address, 2 * i);
        if (distribution == "student_t3") {
            const auto [c, d] = normals(address, 2 * i + 1);
            x[i] = static_cast<float>(a / std::sqrt((b * b + c * c + d * d) / 3.0));
        } else {
            const std::size_t column = i % kCols;
            const bool outlier = distribution == "outlier" && (column == 5 || column == 69);
            x[i] = static_cast<float>(a + (outlier ? 30.0 : 0.0));
        }
    }
    return x;
}

struct Errors {
    double nmse, projection;
};

Errors quantise(const std::vector<float>& x, const QuantSpec& spec) {
    std::vector<std::uint8_t> codes(
        static_cast<std::size_t>(kRows * formats::row_bytes(spec, kCols)));
    const auto tiles = static_cast<std::size_t>(formats::TileGrid(spec.tile, kRows, kCols).count());
    std::vector<float> scales(tiles), q(x.size());
    std::vector<std::uint8_t> scale_codes(tiles);
    float global = 1.0f;
    const PackedView packed{codes.data(), scales.data(), scale_codes.data(), &global};
    kernels::quantize({x.data(), kRows, kCols, kCols, 1}, spec, {77, 1, 2, 3}, packed);
    kernels::dequantize(packed, spec, kRows, kCols, q.data());
    double error = 0, power = 0, product = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double difference = static_cast<double>(q[i]) - x[i];
        error += difference * difference;
        power += static_cast<double>(x[i]) * x[i];
        product += static_cast<double>(x[i]) * q[i];
    }
    return {error / power, product / power};
}

TEST(FormatStatistics, ErrorsAreThoseOfTheReferencePrograms) {
    const std::map<std::string, std::string> specs{
        {"E2M1 1x128", "e2m1:1x128:f32"},
        {"E4M3 1x128", "e4m3:1x128:f32"},
        {"E4M3 per tensor", "e4m3:tensor:f32"},
        {"INT4 1x128", "int4:1x128:f32"},
        {"INT4 g32", "int4:1x32:f32"},
        {"INT4 per tensor", "int4:tensor:f32"},
        {"INT8 1x128", "int8:1x128:f32"},
        {"INT8 per tensor", "int8:tensor:f32"},
        {"MXFP4 EVEN", "e2m1:1x32:e8m0/even"},
        {"MXFP4 FLOOR", "e2m1:1x32:e8m0/floor"},
        {"MXFP4 RCEIL", "e2m1:1x32:e8m0/rceil"},
        {"MXFP8 E4M3 RCEIL", "e4m3:1x32:e8m0/rceil"},
        {"MXFP4 FLOOR SR 3/4", "mxfp4:guard:sr"},
        {"MXINT8 FLOOR", "mxint8:1x32:e8m0/floor"},
        {"NVFP4 4/6 MSE", "nvfp4:4over6"},
        {"NVFP4 RNE", "nvfp4"},
        {"NVFP4 SR guard 17/16", "nvfp4:guard:sr"},
        {"NVFP4 SR no guard", "nvfp4:sr"},
        {"NVINT4 g16", "nvint4"},
        {"RHT16 + NVFP4", "nvfp4:rht16"},
        {"RHT16 + NVINT4", "nvint4:rht16"},
        {"RHT16 + NVINT4 SR no guard", "nvint4:rht16:sr"},
        {"RHT32 + MS-EDEN", "nvfp4:rht32:mseden"},
    };
    std::map<std::string, std::vector<float>> inputs;
    for (const char* name : {"gaussian", "student_t3", "outlier"}) inputs[name] = draw(name);
    int rows = 0;
    const auto entries = golden::load("statistics.json").at("rows");
    for (const auto& row : entries) {
        const auto name = row.at("quantizer").get<std::string>();
        const auto distribution = row.at("distribution").get<std::string>();
        const auto spec = specs.find(name);
        ASSERT_NE(spec, specs.end()) << name;
        const bool heavy = distribution == "student_t3";
        // One sample decides a whole tensor's scale there; only the order of magnitude is meant.
        const bool loose = heavy && name.find("per tensor") != std::string::npos;
        const Errors errors = quantise(inputs.at(distribution), parse_spec(spec->second));
        const std::string what = distribution + " " + name;
        if (loose) {
            EXPECT_GT(errors.nmse, row.at("nmse_mean").get<double>() / 10) << what;
            EXPECT_LT(errors.nmse, row.at("nmse_mean").get<double>() * 10) << what;
        } else if (heavy) {
            EXPECT_GE(errors.nmse, 0.9 * row.at("nmse_min").get<double>()) << what;
            EXPECT_LE(errors.nmse, 1.1 * row.at("nmse_max").get<double>()) << what;
        } else {
            const double mean = row.at("nmse_mean").get<double>();
            // The one amax of a tensor moves its error and projection from sample to sample.
            const double deviation = 4 * row.at("nmse_std").get<double>();
            EXPECT_NEAR(errors.nmse, mean, std::max(0.03 * mean, deviation)) << what;
            const double spread = std::max(0.002, 4 * row.at("proj_std").get<double>());
            EXPECT_NEAR(errors.projection, row.at("proj_mean").get<double>(), spread) << what;
        }
        ++rows;
    }
    EXPECT_EQ(rows, 69);
}

// All 65536 noise words are tried, so probabilities are exact.
TEST(FormatStatistics, StochasticRoundingTakesTheNeighboursWithTheirProbabilities) {
    const std::map<std::string, std::string> names{
        {"e2m1", "e2m1"}, {"e4m3fn", "e4m3"}, {"e4m3", "e4m3ieee"}, {"e5m2", "e5m2"},
        {"e2m3", "e2m3"}, {"e3m2", "e3m2"},   {"int4_sym7", "int4"}};
    int cases = 0;
    const auto entries = golden::load("statistics.json").at("sr_elements");
    for (const auto& entry : entries) {
        const auto name = names.find(entry.at("format").get<std::string>());
        ASSERT_NE(name, names.end()) << entry.at("format");
        const ElementFormat& format = *formats::find_element(name->second);
        const auto x = entry.at("x").get<float>();
        double mean = 0, squares = 0;
        for (std::uint32_t noise = 0; noise < 65536; ++noise) {
            const std::uint32_t code =
                encode(format, x, Rounding::kStochastic, static_cast<std::uint16_t>(noise));
            const double value = decode(format, code);
            mean += value / 65536;
            squares += value * value / 65536;
            if (entry.contains("away_from_zero")) {
                EXPECT_TRUE(value == entry.at("away_from_zero").get<double>() ||
                            value == entry.at("toward_zero").get<double>());
            } else {
                EXPECT_TRUE(value == entry.at("ceil").get<double>() ||
                            value == entry.at("floor").get<double>());
            }
        }
        const double step = entry.contains("away_from_zero")
                                ? std::abs(entry.at("away_from_zero").get<double>() -
                                           entry.at("toward_zero").get<double>())
                                : 1.0;
        EXPECT_NEAR(mean, entry.at("mean").get<double>(), step * 0x1p-16)
            << name->first << " " << x;
        EXPECT_NEAR(squares - mean * mean, entry.at("variance").get<double>(),
                    step * step * 0x1p-15)
            << name->first << " " << x;
        // Fewer random bits: every pattern once, the probability right to half of one.
        for (int bits : {1, 4, 8}) {
            double coarse = 0;
            for (std::uint32_t noise = 0; noise < (1u << bits); ++noise) {
                const auto word = static_cast<std::uint16_t>(noise << (16 - bits));
                const std::uint32_t code = encode(format, x, Rounding::kStochastic, word, bits);
                coarse += std::ldexp(decode(format, code), -bits);
            }
            EXPECT_NEAR(coarse, entry.at("mean").get<double>(), std::ldexp(step, -bits - 1))
                << name->first << " " << x << " with " << bits << " bits";
        }
        ++cases;
    }
    EXPECT_EQ(cases, 213);
}

TEST(FormatStatistics, StochasticBf16HasTheProbabilityOfItsLowerHalf) {
    const ElementFormat& bf16 = *formats::find_element("bf16");
    const auto entries = golden::load("statistics.json").at("sr_bf16");
    for (const auto& entry : entries) {
        const float x = golden::floats(entry.at("x_f32_hex").get<std::string>())[0];
        const std::uint32_t low =
            golden::hex(entry.at("toward_zero_bf16").get<std::string>(), 4)[0];
        const std::uint32_t away = golden::hex(entry.at("away_bf16").get<std::string>(), 4)[0];
        int count = 0;
        for (std::uint32_t noise = 0; noise < 65536; ++noise) {
            const std::uint32_t code =
                encode(bf16, x, Rounding::kStochastic, static_cast<std::uint16_t>(noise));
            ASSERT_TRUE(code == low || code == away) << x;
            count += code == away ? 1 : 0;
        }
        EXPECT_EQ(count / 65536.0, entry.at("p_away").get<double>()) << x;
    }
    EXPECT_EQ(entries.size(), 7u);
}

TEST(FormatStatistics, StochasticNvfp4BlocksAreUnbiasedWhereTheyAreNotCutOff) {
    constexpr int kSeeds = 4000;
    int blocks = 0;
    const auto entries = golden::load("statistics.json").at("sr_nvfp4_blocks");
    for (const auto& entry : entries) {
        const QuantSpec spec = parse_spec(entry.at("guard") == "1" ? "nvfp4:sr" : "nvfp4:guard:sr");
        // Row 0 is the block; row 1 gives the tensor its amax.
        std::vector<float> x;
        for (const auto& value : entry.at("block")) x.push_back(value.get<float>());
        x.resize(32, 0.0f);
        x[16] = entry.at("tensor_amax").get<float>();
        std::vector<double> sums(16, 0.0);
        std::vector<std::uint8_t> codes(16), scales(2);
        std::vector<float> values(32);
        float global = 0.0f;
        const PackedView packed{codes.data(), nullptr, scales.data(), &global};
        for (int seed = 0; seed < kSeeds; ++seed) {
            const NoiseAddress noise{static_cast<std::uint64_t>(seed), 0, 0, 0};
            kernels::quantize({x.data(), 2, 16, 16, 1}, spec, noise, packed);
            kernels::dequantize(packed, spec, 2, 16, values.data());
            for (std::size_t i = 0; i < 16; ++i) sums[i] += values[i];
        }
        EXPECT_EQ(decode_scale(formats::ScaleFormat::kUe4m3, scales[0]),
                  entry.at("block_scale").get<float>());
        EXPECT_NEAR(1.0f / global, entry.at("s_enc").get<float>(),
                    entry.at("s_enc").get<float>() * 1e-6f);
        for (std::size_t i = 0; i < 16; ++i) {
            const double mean = entry.at("mean")[i].get<double>();
            const double sigma = std::sqrt(entry.at("variance")[i].get<double>() / kSeeds);
            EXPECT_NEAR(sums[i] / kSeeds, mean, 5 * sigma + std::abs(mean) * 1e-4)
                << "element " << i;
        }
        ++blocks;
    }
    EXPECT_EQ(blocks, 8);
}

}  // namespace
}  // namespace subbyte
