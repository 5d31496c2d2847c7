// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// What the rarer elements, scale rules and options do to a matrix, by the reference quantiser.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "subbyte/formats/code_stream.h"
#include "subbyte/formats/hadamard.h"
#include "subbyte/formats/quantize_reference.h"

namespace subbyte::formats {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Result {
    std::vector<std::uint8_t> codes, scale_codes;
    std::vector<float> scales, levels, values;
};

Result quantize(const std::vector<float>& x, std::int64_t rows, const QuantSpec& spec,
                const NoiseAddress& noise = {}) {
    const std::int64_t cols = rows == 0 ? 0 : static_cast<std::int64_t>(x.size()) / rows;
    const auto tiles = static_cast<std::size_t>(TileGrid(spec.tile, rows, cols).count());
    Result q;
    q.codes.resize(static_cast<std::size_t>(rows * row_bytes(spec, cols)), 0xAA);
    q.scale_codes.resize(tiles, 0xAA);
    q.scales.resize(tiles, -1.0f);
    q.levels.resize(
        static_cast<std::size_t>(std::max<std::int64_t>(1, level_count(spec, rows, cols))));
    q.values.resize(x.size());
    std::uint32_t signs[4];
    const PackedView packed{q.codes.data(), q.scales.data(), q.scale_codes.data(), q.levels.data(),
                            signs};
    quantize_reference({x.data(), rows, cols, cols, 1}, spec, noise, packed);
    dequantize_reference(packed, spec, rows, cols, q.values.data());
    return q;
}

std::vector<float> normal(std::size_t count, std::uint32_t layer = 0) {
    std::vector<float> x(count);
    for (std::size_t i = 0; i < count; ++i) {
        double sum = -6.0;  // twelve uniform numbers
        for (std::uint32_t word = 0; word < 3; ++word) {
            for (std::uint32_t bits : noise_block({11, word, layer, 0}, i)) sum += bits * 0x1p-32;
        }
        x[i] = static_cast<float>(sum);
    }
    return x;
}

double squared_error(const std::vector<float>& x, const std::vector<float>& y) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += (double{y[i]} - x[i]) * (double{y[i]} - x[i]);
    return sum;
}

double squares(const std::vector<float>& x) {
    return squared_error(std::vector<float>(x.size()), x);
}

std::vector<std::string> all_texts() {
    std::vector<std::string> texts;
    for (const ElementFormat& element : element_formats()) {
        if (element.bits == 16) continue;
        for (const char* rest :
             {":1x16:f32", ":1x16:f32/rceil", ":1x16:e8m0/floor", ":1x16:e8m0/nearest",
              ":1x16:e8m0/rceil+f32", ":1x16:ue4m3", ":1x16:ue5m3h/up", ":4x8:ue5m3+f32",
              ":1x16:ue4m3+f32@1x32:sr8", ":1x16:f32+f32:away", ":row:f32:down",
              ":tensor:f32:recip", ":1x16:ue4m3+f32:teb:guard"}) {
            texts.push_back(std::string(element.name) + rest);
        }
    }
    for (const char* text : {"nvfp4:4over6", "nvfp4:4over6mae:sr", "nvfp4:torchao",
                             "e2m1:1x16:ue4m3:ggml", "mxfp4:guard:sr", "e5m1:1x16:ue4m3+f32"}) {
        texts.emplace_back(text);
    }
    return texts;
}

TEST(CodeStream, CodesOfEveryWidthAreBitsInARow) {
    for (int bits = 3; bits <= 16; ++bits) {
        std::vector<std::uint8_t> row(static_cast<std::size_t>((37 * bits + 7) / 8), 0);
        std::vector<std::uint32_t> codes;
        for (std::int64_t c = 0; c < 37; ++c) {
            codes.push_back(noise_block({}, static_cast<std::uint64_t>(c))[0] & ((1u << bits) - 1));
            store_code(row.data(), bits, c, codes.back());
        }
        for (std::int64_t c = 0; c < 37; ++c) {
            EXPECT_EQ(load_code(row.data(), bits, c), codes[static_cast<std::size_t>(c)]) << bits;
            for (int bit = 0; bit < bits; ++bit) {
                const auto at = static_cast<std::size_t>(c * bits + bit);
                EXPECT_EQ(row[at / 8] >> (at % 8) & 1,
                          static_cast<int>(codes[static_cast<std::size_t>(c)] >> bit & 1));
            }
        }
    }
}

TEST(QuantizeOptions, ZeroBlocksStayZeroAndBadBlocksBecomeNan) {
    std::vector<float> x = normal(8 * 64);
    std::fill(x.begin() + 64, x.begin() + 2 * 64, 0.0f);  // one row of zeros
    std::fill(x.begin() + 4 * 64, x.end(), 0.0f);         // and a tile of them for 4x8
    x[2 * 64 + 5] = kNan;
    x[3 * 64 + 40] = -kInf;
    for (const std::string& text : all_texts()) {
        const QuantSpec spec = parse_spec(text);
        const Result q = quantize(x, 8, spec, {1, 2, 3, 4});
        const bool own_zero_tile = spec.tile != Tile::tensor();
        // E8M0 has no zero: a table without one ends at 2^-127 of its smallest number.
        const float zero =
            spec.scale == ScaleFormat::kE8m0 && !spec.element->has_zero() ? 1e-37f : 0.0f;
        const TileGrid grid(spec.tile, 8, 64);
        for (std::int64_t r = 0; r < 8; ++r) {
            for (std::int64_t c = 0; c < 64; ++c) {
                const float value = q.values[static_cast<std::size_t>(r * 64 + c)];
                const std::int64_t tile = grid.index(r, c);
                if (tile == grid.index(2, 5) || tile == grid.index(3, 40)) {
                    EXPECT_TRUE(std::isnan(value)) << text << " " << r << " " << c;
                } else if (own_zero_tile && r >= 4) {
                    EXPECT_LE(std::abs(value), zero) << text << " " << r << " " << c;
                } else {
                    EXPECT_TRUE(std::isfinite(value)) << text << " " << r << " " << c;
                }
            }
        }
    }
}

TEST(QuantizeOptions, EmptyAndRaggedMatricesAreAccepted) {
    for (const std::string& text : all_texts()) {
        const QuantSpec spec = parse_spec(text);
        EXPECT_TRUE(quantize({}, 0, spec).values.empty());
        for (std::size_t cols : {1u, 15u, 17u, 33u}) {
            const std::vector<float> x = normal(3 * cols);
            const Result q = quantize(x, 3, spec);
            for (std::size_t i = 0; i < x.size(); ++i) {
                EXPECT_TRUE(std::isfinite(q.values[i])) << text;
            }
        }
    }
}

// The same amax / max in exact arithmetic: doubles hold the products.
TEST(ScaleRules, PowersOfTwoAreThoseOfTheirDefinition) {
    for (const ElementFormat& element : element_formats()) {
        if (element.bits == 16) continue;
        for (std::uint64_t i = 0; i < 3000; ++i) {
            const std::uint32_t bits = noise_block({3, 0, 0, 0}, i)[0];
            const float mantissa = 1.0f + static_cast<float>(bits >> 9) * 0x1p-23f;
            float amax = std::ldexp(mantissa, static_cast<int>(bits % 60) - 30);
            // On and beside the borders: max and 1.5 max times a power of two.
            if (i % 5 == 0) amax = std::ldexp(element.max, static_cast<int>(i % 40) - 20);
            if (i % 5 == 1) amax = std::ldexp(1.5f * element.max, static_cast<int>(i % 40) - 20);
            if (i % 15 < 5) amax = std::nextafter(amax, i % 2 == 0 ? 0.0f : kInf);
            const double exact = amax, max = element.max;
            const auto power = [&](ScaleRule rule) {
                return std::ldexp(1.0, e8m0_exponent(element, rule, amax));
            };
            const double up = power(ScaleRule::kRceil);
            EXPECT_LE(exact, max * up);
            EXPECT_GT(exact, max * up / 2);
            EXPECT_EQ(fp32_scale(element, amax, ScaleRule::kRceil), up);
            const double floor = power(ScaleRule::kFloor), top = std::ldexp(floor, element.emax());
            EXPECT_LE(top, exact);
            EXPECT_GT(2 * top, exact);
            const double near = power(ScaleRule::kNearest);
            // Its neighbours are not nearer; in a tie the exponent's code is even.
            EXPECT_LE(std::abs(exact - max * near), std::abs(exact - max * near * 2));
            EXPECT_LE(std::abs(exact - max * near), std::abs(exact - max * near / 2));
            if (exact == 1.5 * max * near || 2 * exact == 1.5 * max * near) {
                EXPECT_EQ((std::ilogb(near) + 127) % 2, 0) << element.name << " " << amax;
            }
        }
    }
}

TEST(ScaleRules, UpNeverCutsOff) {
    const std::vector<float> x = normal(64 * 64);
    for (const char* text : {"e2m1:1x16:ue4m3/up+f32:sr", "int4:1x16:ue5m3/up:zero",
                             "e2m1:1x32:e8m0/rceil:down", "e2m3:1x16:f32/rceil:up"}) {
        const QuantSpec spec = parse_spec(text);
        const Result q = quantize(x, 64, spec, {1, 1, 1, 1});
        const TileGrid grid(spec.tile, 64, 64);
        for (std::int64_t r = 0; r < 64; ++r) {
            for (std::int64_t c = 0; c < 64; ++c) {
                const auto i = static_cast<std::size_t>(r * 64 + c);
                const auto tile = static_cast<std::size_t>(grid.index(r, c));
                const double scale = spec.scale == ScaleFormat::kFp32
                                         ? double{q.scales[tile]}
                                         : double{decode_scale(spec.scale, q.scale_codes[tile])};
                const double reach = scale * (spec.second_level ? double{q.levels[0]} : 1.0);
                EXPECT_LE(std::abs(x[i]), reach * spec.element->max * (1 + 1e-6)) << text;
            }
        }
    }
}

// One level per patch is what each patch alone would get.
TEST(DoubleBlock, PatchesAreIndependent) {
    std::vector<float> x = normal(4 * 256);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= i % 256 < 128 ? 1e-3f : 1e4f;
    for (const char* base :
         {"e2m1:1x16:ue4m3+f32", "int4:2x32:ue5m3+f32", "e4m3:1x32:e8m0/ceil+f32"}) {
        const Result whole = quantize(x, 4, parse_spec(std::string(base) + "@2x128"));
        EXPECT_EQ(whole.levels.size(), 4u);
        for (std::size_t r = 0; r < 4; r += 2) {
            for (std::size_t c = 0; c < 256; c += 128) {
                std::vector<float> patch, expected;
                for (std::size_t i = r; i < r + 2; ++i) {
                    for (std::size_t j = c; j < c + 128; ++j) {
                        patch.push_back(x[i * 256 + j]);
                        expected.push_back(whole.values[i * 256 + j]);
                    }
                }
                const Result alone = quantize(patch, 2, parse_spec(base));
                EXPECT_EQ(alone.values, expected) << base;
                EXPECT_EQ(alone.levels[0], whole.levels[r + c / 128]) << base;
            }
        }
    }
}

// With head room, stochastic rounding has the right mean for every element; without it the
// largest of a block is cut off now and then.
TEST(Guard, StochasticRoundingIsUnbiasedWithIt) {
    const std::vector<float> x = normal(4 * 64, 5);
    constexpr int kDraws = 3000;
    const auto worst_bias = [&](const char* text) {
        const QuantSpec spec = parse_spec(text);
        std::vector<double> sums(x.size(), 0.0), power(x.size(), 0.0);
        for (int i = 0; i < kDraws; ++i) {
            const Result q = quantize(x, 4, spec, {static_cast<std::uint64_t>(i), 0, 0, 0});
            for (std::size_t j = 0; j < x.size(); ++j) {
                const double error = double{q.values[j]} - x[j];
                sums[j] += error;
                power[j] += error * error;
            }
        }
        double worst = 0;  // in standard deviations of the mean
        for (std::size_t j = 0; j < x.size(); ++j) {
            // A neighbour that comes up less than once in all draws adds nothing to `power`: allow
            // one step of about 1.
            const double deviation = std::sqrt(power[j]) / kDraws + 1.0 / kDraws;
            worst = std::max(worst, std::abs(sums[j] / kDraws) / deviation);
        }
        return worst;
    };
    for (const char* text : {"nvfp4:guard:sr", "nvint4:guard:sr", "mxfp4:guard:sr",
                             "e2m1:1x16:ue4m3/up+f32:sr", "e2m1:1x32:e8m0/rceil:sr"}) {
        EXPECT_LT(worst_bias(text), 5.0) << text;
    }
    for (const char* text : {"nvfp4:sr", "nvint4:sr", "mxfp4:sr"}) {
        EXPECT_GT(worst_bias(text), 10.0) << text;
    }
}

TEST(FourOverSix, TakesTheBetterOfTwoScales) {
    const std::vector<float> x = normal(16 * 128, 9);
    const double plain = squared_error(x, quantize(x, 16, parse_spec("nvfp4")).values);
    const double mse = squared_error(x, quantize(x, 16, parse_spec("nvfp4:4over6")).values);
    const double mae = squared_error(x, quantize(x, 16, parse_spec("nvfp4:4over6mae")).values);
    EXPECT_LT(mse, 0.95 * plain);
    EXPECT_LE(mse, mae);
    EXPECT_LT(mae, plain);
}

TEST(MsEden, IsUnbiasedOverItsDrawsWithLessErrorThanStochasticRounding) {
    const std::vector<float> x = normal(2 * 64, 21);
    constexpr int kDraws = 4000;
    const auto run = [&](const char* text, double& error) {
        const QuantSpec spec = parse_spec(text);
        std::vector<float> mean(x.size());
        std::vector<double> sums(x.size(), 0.0);
        error = 0;
        for (int i = 0; i < kDraws; ++i) {
            const Result q = quantize(x, 2, spec, {static_cast<std::uint64_t>(i), 1, 2, 3});
            error += squared_error(x, q.values) / kDraws;
            for (std::size_t j = 0; j < x.size(); ++j) sums[j] += q.values[j];
        }
        for (std::size_t j = 0; j < x.size(); ++j) mean[j] = static_cast<float>(sums[j] / kDraws);
        return squared_error(x, mean);
    };
    double eden = 0, stochastic = 0, nearest = 0;
    const double eden_bias = run("nvfp4:rht32fresh:mseden", eden);
    const double nearest_bias = run("nvfp4:rht32fresh", nearest);
    run("nvfp4:guard:sr", stochastic);
    EXPECT_LT(eden, 0.5 * stochastic);
    // The mean of kDraws has 1 / kDraws of the error of one; nearest rounding keeps its shrinkage.
    EXPECT_LT(eden_bias, 3.0 * eden / kDraws);
    EXPECT_GT(nearest_bias, 5.0 * nearest / kDraws);
}

TEST(Rotation, SpreadsAnOutlierAndComesBack) {
    std::vector<float> x = normal(4 * 100, 2);
    for (std::size_t r = 0; r < 4; ++r) x[r * 100 + 7] = 60.0f;
    const double plain = squared_error(x, quantize(x, 4, parse_spec("nvint4")).values);
    for (const char* rotation : {":rht16", ":rht16fresh", ":rht64"}) {
        const Result q = quantize(x, 4, parse_spec(std::string("nvint4") + rotation), {4, 5, 6, 7});
        EXPECT_LT(squared_error(x, q.values), 0.7 * plain) << rotation;
    }
    // With 8 bits what comes back is close, in every column of a ragged row.
    const Result fine = quantize(x, 4, parse_spec("int8:1x4:f32:rht32"));
    EXPECT_LT(squared_error(x, fine.values), 1e-4 * squares(x));
    // A NaN spoils its group and nothing else.
    x[50] = kNan;
    const Result bad = quantize(x, 4, parse_spec("int8:1x16:f32:rht16"));
    for (std::size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(std::isnan(bad.values[i]), i / 16 == 3 && i < 100) << i;
    }
}

TEST(Rotation, FreshSignsChangeWithTheStepAndFixedOnesDoNot) {
    const std::vector<float> x = normal(128, 3);
    const auto values = [&](const char* text, std::uint32_t step) {
        return quantize(x, 1, parse_spec(text), {1, step, 0, 0}).values;
    };
    EXPECT_EQ(values("nvfp4:rht16", 1), values("nvfp4:rht16", 2));
    EXPECT_NE(values("nvfp4:rht16fresh", 1), values("nvfp4:rht16fresh", 2));
    EXPECT_EQ(values("nvfp4:rht16fresh", 2), values("nvfp4:rht16fresh", 2));
}

}  // namespace
}  // namespace subbyte::formats
