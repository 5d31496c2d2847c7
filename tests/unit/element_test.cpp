// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/element.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/core/philox.h"

namespace subbyte::formats {
namespace {

std::uint32_t to_bits(float x) { return std::bit_cast<std::uint32_t>(x); }
float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Every format there is: the documented rows and those made from their numbers.
std::vector<const ElementFormat*> all_formats() {
    std::vector<const ElementFormat*> formats;
    for (const ElementFormat& format : element_formats()) formats.push_back(&format);
    for (int bits = 3; bits <= 8; ++bits) {
        for (int exponent = 1; exponent < bits; ++exponent) {
            for (const char* suffix : {"", "fn", "ieee"}) {
                const std::string name =
                    fmt::format("e{}m{}{}", exponent, bits - 1 - exponent, suffix);
                const ElementFormat* const format = find_element(name);
                if (format == nullptr) continue;
                if (std::find(formats.begin(), formats.end(), format) == formats.end()) {
                    formats.push_back(format);
                }
            }
        }
    }
    return formats;
}

std::uint32_t code_count(const ElementFormat& format) {
    return static_cast<std::uint32_t>(format.code_count());
}

TEST(Element, EncodeOfDecodeIsTheCode) {
    for (const ElementFormat* row : all_formats()) {
        const ElementFormat& format = *row;
        std::uint32_t checked = 0, finite = 0;
        for (std::uint32_t code = 0; code < code_count(format); ++code) {
            const float value = decode(format, code);
            finite += std::isfinite(value) ? 1 : 0;
            if (std::isnan(value)) continue;
            if (std::isinf(value) && format.bits < 16) continue;  // saturates
            if (value < format.lowest) continue;                  // -128 and -8 are never produced
            // The code of -0 in a format that has no negative zero.
            if (format.kind == ElementKind::kLog && code == code_count(format) / 2) continue;
            for (Rounding rounding :
                 {Rounding::kNearestEven, Rounding::kNearestAway, Rounding::kNearestZero,
                  Rounding::kTowardZero, Rounding::kUp, Rounding::kDown}) {
                EXPECT_EQ(encode(format, value, rounding), code) << format.name;
            }
            for (std::uint16_t noise : {0, 1, 65535}) {
                for (int bits : {1, 8, 16}) {
                    EXPECT_EQ(encode(format, value, Rounding::kStochastic, noise, bits), code)
                        << format.name;
                }
            }
            ++checked;
        }
        EXPECT_GE(checked, finite - 1) << format.name;
    }
}

TEST(Element, NumbersOfEveryFormatAreThoseOfItsCodes) {
    for (const ElementFormat* row : all_formats()) {
        const ElementFormat& format = *row;
        float max = 0, lowest = 0, smallest = std::numeric_limits<float>::infinity();
        bool zero = false;
        for (std::uint32_t code = 0; code < code_count(format); ++code) {
            const float value = decode(format, code);
            if (!std::isfinite(value)) continue;
            max = std::max(max, value);
            zero = zero || value == 0.0f;
            if (value > 0.0f) smallest = std::min(smallest, value);
            if (value >= format.lowest) lowest = std::min(lowest, value);
        }
        EXPECT_EQ(format.max, max) << format.name;
        if (zero) {
            EXPECT_EQ(format.lowest, lowest) << format.name;
        }
        EXPECT_EQ(format.min_positive(), smallest) << format.name;
        EXPECT_EQ(format.has_zero(), zero) << format.name;
        EXPECT_LE(std::ldexp(1.0f, format.emax()), max) << format.name;
        EXPECT_GT(std::ldexp(2.0f, format.emax()), max) << format.name;
    }
}

TEST(Element, Bf16KeepsEveryFiniteCodeAndEveryNan) {
    const ElementFormat& bf16 = *find_element("bf16");
    for (std::uint32_t code = 0; code < 65536; ++code) {
        const float value = decode(bf16, code);
        EXPECT_EQ(to_bits(value), code << 16);
        const std::uint32_t back = encode(bf16, value, Rounding::kNearestEven);
        if (std::isnan(value)) {
            EXPECT_TRUE(std::isnan(decode(bf16, back))) << code;
        } else {
            EXPECT_EQ(back, code);
        }
    }
}

struct Point {
    double value;
    bool even;  // whether its code is
};

// Finite numbers of a format in rising order, from its own table of values.
std::vector<Point> grid(const ElementFormat& format) {
    std::vector<Point> points;
    for (std::uint32_t code = 0; code < code_count(format); ++code) {
        const double value = decode(format, code);
        if (std::isfinite(value) && value >= format.lowest && value <= format.max) {
            points.push_back({value, code % 2 == 0});
        }
    }
    std::stable_sort(points.begin(), points.end(),
                     [](const Point& a, const Point& b) { return a.value < b.value; });
    const auto same = [](const Point& a, const Point& b) { return a.value == b.value; };
    points.erase(std::unique(points.begin(), points.end(), same), points.end());
    return points;
}

// Values on and beside the grid points and the midpoints of the format, and of every binade.
std::vector<float> probes(const std::vector<Point>& points) {
    std::vector<float> values;
    const auto around = [&](double x) {
        const auto centre = static_cast<float>(x);
        values.push_back(centre);
        values.push_back(std::nextafter(centre, -std::numeric_limits<float>::max()));
        values.push_back(std::nextafter(centre, std::numeric_limits<float>::max()));
    };
    for (std::size_t i = 0; i + 1 < points.size(); ++i) {
        around(points[i].value);
        around((points[i].value + points[i + 1].value) / 2);
        around(points[i].value + (points[i + 1].value - points[i].value) / 3);
    }
    for (std::uint64_t i = 0; i < 4000; ++i) {
        const std::uint32_t bits = noise_block({5, 0, 0, 0}, i)[0];
        values.push_back(from_bits(bits & 0xFF7FFFFF));
    }
    return values;
}

// An independent search: the neighbours of x on the grid, compared in double (all exact).
TEST(Element, RoundingAgreesWithASearchOfTheGrid) {
    for (const ElementFormat* row : all_formats()) {
        const ElementFormat& format = *row;
        if (format.bits == 16) continue;
        const auto points = grid(format);
        const bool table = format.kind == ElementKind::kTable;
        for (float x : probes(points)) {
            const double value = std::clamp<double>(x, format.lowest, format.max);
            const auto above =
                std::lower_bound(points.begin(), points.end(), value,
                                 [](const Point& point, double v) { return point.value < v; });
            if (above->value == value) {
                EXPECT_EQ(decode(format, encode(format, x, Rounding::kDown)),
                          static_cast<float>(value))
                    << format.name << " " << x;
                continue;
            }
            const Point low = *(above - 1), high = *above;
            const auto result = [&](Rounding rounding) {
                return double{decode(format, encode(format, x, rounding))};
            };
            const double below = value - low.value, over = high.value - value;
            const double nearest = below < over ? low.value : high.value;
            const bool tie = below == over;
            const double inner = value > 0 ? low.value : high.value;
            const double outer = value > 0 ? high.value : low.value;
            const double even = table || high.even ? high.value : low.value;
            const std::string what = std::string(format.name) + " " + std::to_string(x);
            EXPECT_EQ(result(Rounding::kNearestEven), tie ? even : nearest) << what;
            EXPECT_EQ(result(Rounding::kNearestAway), tie ? outer : nearest) << what;
            EXPECT_EQ(result(Rounding::kNearestZero), tie ? inner : nearest) << what;
            EXPECT_EQ(result(Rounding::kTowardZero), inner) << what;
            EXPECT_EQ(result(Rounding::kUp), high.value) << what;
            EXPECT_EQ(result(Rounding::kDown), low.value) << what;
            const double from = table ? low.value : inner, to = table ? high.value : outer;
            for (int bits : {1, 4, 8, 16}) {
                // std::nearbyint rounds ties to even: the documented fraction.
                const double all = std::ldexp(1.0, bits);
                const double fraction = std::nearbyint(all * (value - from) / (to - from));
                for (double noise : {0.0, fraction - 1, fraction, fraction + 1, all - 1}) {
                    if (noise < 0 || noise >= all) continue;
                    // Bits below the top ones must not matter.
                    const auto word = static_cast<std::uint32_t>(noise) << (16 - bits);
                    for (std::uint32_t rest : {0u, (1u << (16 - bits)) - 1}) {
                        const std::uint32_t code =
                            encode(format, x, Rounding::kStochastic,
                                   static_cast<std::uint16_t>(word | rest), bits);
                        ASSERT_EQ(decode(format, code), noise < fraction ? to : from)
                            << what << " noise " << noise << " of " << bits << " bits";
                    }
                }
            }
        }
    }
}

TEST(Element, Bf16RoundsOnTheUpperHalf) {
    const ElementFormat& bf16 = *find_element("bf16");
    for (std::uint64_t i = 0; i < 100000; ++i) {
        const std::uint32_t bits = noise_block({6, 0, 0, 0}, i)[1];
        const float x = from_bits(bits);
        if (std::isnan(x)) continue;
        const std::uint32_t low = bits & 0xFFFF, high = bits >> 16;
        const bool up = low > 0x8000 || (low == 0x8000 && (high & 1) != 0);
        EXPECT_EQ(encode(bf16, x, Rounding::kNearestEven), high + (up ? 1 : 0));
        for (std::uint32_t noise : {0u, low - 1, low, 65535u}) {
            const auto word = static_cast<std::uint16_t>(noise);
            EXPECT_EQ(encode(bf16, x, Rounding::kStochastic, word), high + (word < low ? 1 : 0));
        }
    }
    const float inf = std::numeric_limits<float>::infinity();
    EXPECT_EQ(encode(bf16, inf, Rounding::kNearestEven), 0x7F80u);
    EXPECT_EQ(encode(bf16, -inf, Rounding::kStochastic, 65535), 0xFF80u);
    EXPECT_EQ(encode(bf16, std::numeric_limits<float>::max(), Rounding::kNearestEven), 0x7F80u);
}

TEST(Element, SaturationKeepsTheSignAndIntegersStaySymmetric) {
    for (const ElementFormat* row : all_formats()) {
        const ElementFormat& format = *row;
        if (format.bits == 16) continue;
        for (float x : {format.max * 1.5f, std::numeric_limits<float>::max(),
                        std::numeric_limits<float>::infinity()}) {
            for (Rounding rounding : {Rounding::kNearestEven, Rounding::kStochastic, Rounding::kUp,
                                      Rounding::kDown, Rounding::kTowardZero}) {
                EXPECT_EQ(decode(format, encode(format, x, rounding, 7)), format.max)
                    << format.name;
                EXPECT_EQ(decode(format, encode(format, -x, rounding, 7)), format.lowest)
                    << format.name;
            }
        }
        const bool full = std::string_view(format.name).ends_with("full");
        if (format.kind == ElementKind::kInteger) {
            EXPECT_EQ(format.lowest, full ? -format.max - format.min_positive() : -format.max);
        }
        const float zero = decode(format, encode(format, -0.0f, Rounding::kNearestEven));
        if (format.has_zero()) {
            EXPECT_EQ(zero, 0.0f) << format.name;
        }
        EXPECT_EQ(std::signbit(zero), format.kind == ElementKind::kFloat) << format.name;
    }
}

TEST(Element, StochasticRoundingIsUnbiased) {
    constexpr std::uint64_t kDraws = 40000;
    for (const ElementFormat* row : all_formats()) {
        const ElementFormat& format = *row;
        for (double share : {0.03, 0.5, 0.8}) {
            // Between two neighbours in the upper part of the range.
            const float top = 5.0f < format.max ? 4.0f : format.max * 0.6f;
            const std::uint32_t code = encode(format, top, Rounding::kTowardZero);
            const float low = decode(format, code), high = decode(format, code + 1);
            const auto x = static_cast<float>(low + share * (high - low));
            const float sign = format.lowest < 0.0f ? -1.0f : 1.0f;
            double sum = 0;
            for (std::uint64_t i = 0; i < kDraws; ++i) {
                const std::uint16_t noise = noise_bits16({42, 1, 2, 3}, i);
                sum += decode(format, encode(format, sign * x, Rounding::kStochastic, noise));
            }
            const double step = high - low;
            const double sigma = step * std::sqrt(share * (1 - share) / kDraws);
            if (format.name == "nf4" && sign < 0.0f) continue;  // not symmetric
            EXPECT_NEAR(sum / kDraws, sign * x, 4.5 * sigma + step * 0x1p-17)
                << format.name << " " << x;
        }
    }
}

TEST(Element, NamesOfNumbersFollowTheirConvention) {
    EXPECT_EQ(find_element("e4m3fn"), find_element("e4m3"));
    EXPECT_EQ(find_element("e5m2ieee"), find_element("e5m2"));
    EXPECT_EQ(find_element("e3m4ieee"), find_element("e3m4"));
    EXPECT_NE(find_element("e4m3ieee"), find_element("e4m3"));
    const ElementFormat& e5m1 = *find_element("e5m1");
    EXPECT_EQ(e5m1.bits, 7);
    EXPECT_EQ(e5m1.bias, 15);
    EXPECT_EQ(e5m1.max, 0x1.8p16f);  // exponent 31 - 15 is an ordinary one
    EXPECT_EQ(find_element("e5m1ieee")->max, 0x1.8p15f);
    EXPECT_EQ(find_element("e5m1fn")->max, 0x1p16f);
    EXPECT_EQ(find_element("e3m0")->max, 16.0f);
    EXPECT_EQ(find_element("e1m1")->bias, 1);
    EXPECT_EQ(find_element("e7m0")->max, 0x1p64f);
    for (const char* name : {"e4m4", "e8m0", "e0m3", "e1m0", "e1m2ieee", "e5m0ieee", "e4m3x",
                             "e04m3", "e4m", "em3", "e4m3fnfn", "E4M3", "e2m1full", ""}) {
        EXPECT_EQ(find_element(name), nullptr) << name;
    }
}

TEST(Element, LogarithmicGridsArePowersOfTheirBase) {
    const ElementFormat& lns8 = *find_element("lns8");
    for (std::uint32_t code = 1; code < 128; ++code) {
        const double exact = std::exp2((static_cast<double>(code) - 127) / 8);
        EXPECT_EQ(decode(lns8, code), static_cast<float>(exact)) << code;
        EXPECT_EQ(decode(lns8, code + 128), -static_cast<float>(exact)) << code;
    }
    const ElementFormat& lns4 = *find_element("lns4");
    for (std::uint32_t code = 1; code < 8; ++code) {
        EXPECT_EQ(decode(lns4, code), std::ldexp(1.0f, static_cast<int>(code) - 7));
        // LUQ's nearest power, 2^floor(log2(4x / 3)), between two neighbours.
        for (float x : {1.1f, 1.3f, 1.49f, 1.51f, 1.9f}) {
            if (code == 7) continue;
            const float value = x * decode(lns4, code);
            EXPECT_EQ(decode(lns4, encode(lns4, value, Rounding::kNearestEven)),
                      std::exp2(std::floor(std::log2(4 * value / 3))));
        }
    }
    // 2^-6.01 is nearer to 2^-6 than to zero; half of it is the tie, and zero is even.
    EXPECT_EQ(decode(lns4, encode(lns4, 0x1p-7f, Rounding::kNearestEven)), 0.0f);
    EXPECT_EQ(decode(lns4, encode(lns4, 0x1.01p-7f, Rounding::kNearestEven)), 0x1p-6f);
}

TEST(Element, UnsaturatedConversionNeedsSpecials) {
    EXPECT_THROW(encode_unsaturated(*find_element("e2m1"), 1.0f), Error);
    const ElementFormat& e4m3 = *find_element("e4m3");
    EXPECT_EQ(encode_unsaturated(e4m3, 464.0f), 0x7Eu);
    EXPECT_EQ(encode_unsaturated(e4m3, std::nextafter(464.0f, 500.0f)), 0x7Fu);
    EXPECT_EQ(encode_unsaturated(*find_element("e5m2"), -61440.0f), 0xFCu);
}

TEST(Element, TheFirstFiveAreThoseOfTheVectorKernels) {
    std::vector<std::string_view> names;
    for (const ElementFormat& format : element_formats().first(5)) names.push_back(format.name);
    EXPECT_EQ(names, (std::vector<std::string_view>{"e4m3", "e5m2", "e2m1", "int8", "int4"}));
}

}  // namespace
}  // namespace subbyte::formats
