// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/element.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "subbyte/core/philox.h"

namespace subbyte::formats {
namespace {

std::uint32_t to_bits(float x) { return std::bit_cast<std::uint32_t>(x); }
float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(Element, EncodeOfDecodeIsTheCode) {
    for (const ElementFormat& format : element_formats()) {
        int checked = 0;
        for (std::uint32_t code = 0; code < static_cast<std::uint32_t>(format.code_count());
             ++code) {
            const float value = decode(format, code);
            if (std::isnan(value)) continue;
            if (std::isinf(value) && format.bits < 16) continue;  // saturates
            const bool most_negative = format.kind == ElementKind::kInteger && value < -format.max;
            if (most_negative) continue;  // -128 and -8 are never produced
            EXPECT_EQ(encode(format, value, Rounding::kNearestEven), code) << format.name;
            for (std::uint16_t noise : {0, 1, 65535}) {
                EXPECT_EQ(encode(format, value, Rounding::kStochastic, noise), code) << format.name;
            }
            ++checked;
        }
        EXPECT_GE(checked, format.code_count() * 97 / 100 - 1) << format.name;
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

// Magnitudes of a format in rising order, from its own table of values.
std::vector<double> grid(const ElementFormat& format) {
    std::vector<double> values;
    for (std::uint32_t code = 0; code < static_cast<std::uint32_t>(format.code_count()); ++code) {
        const double value = decode(format, code);
        if (std::isfinite(value) && value >= 0 && value <= format.max) values.push_back(value);
    }
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
}

// Every binade, with values on and beside the grid points and the midpoints of the format.
std::vector<float> probes(const ElementFormat& format) {
    std::vector<float> values;
    const auto around = [&](double x) {
        const auto centre = static_cast<float>(x);
        values.push_back(centre);
        values.push_back(std::nextafter(centre, 0.0f));
        values.push_back(std::nextafter(centre, std::numeric_limits<float>::max()));
    };
    const auto points = grid(format);
    for (std::size_t i = 0; i + 1 < points.size(); ++i) {
        around(points[i]);
        around((points[i] + points[i + 1]) / 2);
        around(points[i] + (points[i + 1] - points[i]) / 3);
    }
    for (std::uint64_t i = 0; i < 20000; ++i) {
        values.push_back(from_bits(noise_block({5, 0, 0, 0}, i)[0] & 0x7F7FFFFF));
    }
    return values;
}

// An independent search: the neighbours of |x| on the grid, compared in double (all exact).
TEST(Element, RoundingAgreesWithASearchOfTheGrid) {
    for (const ElementFormat& format : element_formats()) {
        if (format.bits == 16) continue;
        const auto points = grid(format);
        for (float x : probes(format)) {
            const double magnitude = std::min<double>(x, format.max);
            const auto above = std::lower_bound(points.begin(), points.end(), magnitude);
            const double high = *above;
            const double low = high == magnitude ? high : *(above - 1);
            double expected = low;
            if (high != low) {
                const double middle = (low + high) / 2;
                const bool low_is_even = (above - points.begin() - 1) % 2 == 0;
                if (magnitude > middle || (magnitude == middle && !low_is_even)) expected = high;
            }
            for (float sign : {1.0f, -1.0f}) {
                EXPECT_EQ(decode(format, encode(format, sign * x, Rounding::kNearestEven)),
                          sign * static_cast<float>(expected))
                    << format.name << " " << sign * x;
            }
            if (high == low) continue;
            // std::nearbyint rounds ties to even: the documented fraction.
            const double fraction = std::nearbyint(65536 * (magnitude - low) / (high - low));
            for (double noise : {0.0, fraction - 1, fraction, fraction + 1, 65535.0}) {
                if (noise < 0 || noise > 65535) continue;
                const float wanted = static_cast<float>(noise < fraction ? high : low);
                const std::uint32_t code =
                    encode(format, x, Rounding::kStochastic, static_cast<std::uint16_t>(noise));
                EXPECT_EQ(decode(format, code), wanted) << format.name << " " << x << " " << noise;
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
    for (const ElementFormat& format : element_formats()) {
        if (format.bits == 16) continue;
        for (float x : {format.max * 1.5f, std::numeric_limits<float>::max(),
                        std::numeric_limits<float>::infinity()}) {
            for (Rounding rounding : {Rounding::kNearestEven, Rounding::kStochastic}) {
                EXPECT_EQ(decode(format, encode(format, x, rounding, 7)), format.max)
                    << format.name;
                EXPECT_EQ(decode(format, encode(format, -x, rounding, 7)), -format.max)
                    << format.name;
            }
        }
        const float zero = decode(format, encode(format, -0.0f, Rounding::kNearestEven));
        EXPECT_EQ(std::signbit(zero), format.kind == ElementKind::kFloat) << format.name;
    }
}

TEST(Element, StochasticRoundingIsUnbiased) {
    constexpr std::uint64_t kDraws = 40000;
    for (const ElementFormat& format : element_formats()) {
        for (double share : {0.03, 0.25, 0.5, 0.8}) {
            // Between two neighbours in the upper part of the range.
            const float low = 5.0f < format.max ? 4.0f : 1.0f;
            const std::uint32_t code = encode(format, low, Rounding::kNearestEven);
            const float high = decode(format, code + 1);
            const auto x = static_cast<float>(low + share * (high - low));
            double sum = 0;
            for (std::uint64_t i = 0; i < kDraws; ++i) {
                const std::uint16_t noise = noise_bits16({42, 1, 2, 3}, i);
                sum += decode(format, encode(format, -x, Rounding::kStochastic, noise));
            }
            const double step = high - low;
            const double sigma = step * std::sqrt(share * (1 - share) / kDraws);
            EXPECT_NEAR(sum / kDraws, -x, 4.5 * sigma + step * 0x1p-17) << format.name << " " << x;
        }
    }
}

TEST(Element, UnknownNamesGiveNothing) {
    EXPECT_EQ(find_element("e4m4"), nullptr);
    EXPECT_EQ(find_element(""), nullptr);
    EXPECT_EQ(element_formats().size(), 6u);
}

}  // namespace
}  // namespace subbyte::formats
