// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/hadamard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "tests/golden/hex.h"

namespace subbyte::formats {
namespace {

using nlohmann::json;

SignBits signs_of(const json& signs) {
    SignBits bits{};
    for (std::size_t i = 0; i < signs.size(); ++i) {
        if (signs[i].get<int>() < 0) bits[i / 32] |= 1u << (i % 32);
    }
    return bits;
}

TEST(Hadamard, RowsMatchTheReference) {
    const json file = golden::load("hadamard.json");
    std::set<int> sizes;
    int exact = 0;
    for (const json& entry : file.at("cases")) {
        const int d = entry.at("d");
        const SignBits signs = signs_of(entry.at("signs"));
        const auto x = entry.at("x").get<std::vector<float>>();
        std::vector<float> y = x;
        rotate_row(y.data(), static_cast<std::int64_t>(y.size()), d, signs);
        const auto expected = entry.at("y_float64").get<std::vector<double>>();
        ASSERT_EQ(y.size(), expected.size());
        double largest = 0;
        for (double value : expected) largest = std::max(largest, std::abs(value));
        for (std::size_t i = 0; i < y.size(); ++i) {
            if (entry.at("exact_in_float32").get<bool>()) {
                EXPECT_EQ(y[i], static_cast<float>(expected[i])) << d << " element " << i;
            } else {
                EXPECT_NEAR(y[i], expected[i], 2e-6 * largest) << d << " element " << i;
            }
        }
        rotate_row_back(y.data(), static_cast<std::int64_t>(y.size()), d, signs);
        for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], x[i], 4e-6 * largest);
        sizes.insert(d);
        exact += entry.at("exact_in_float32").get<bool>() ? 1 : 0;
    }
    EXPECT_EQ(sizes, (std::set<int>{16, 32, 64, 128}));
    EXPECT_GT(exact, 0);
}

TEST(Hadamard, ProductsOfRotatedRowsAreThoseOfTheRows) {
    const json pair = golden::load("hadamard.json").at("pair");
    const SignBits signs = signs_of(pair.at("signs"));
    const int d = pair.at("d");
    auto a = pair.at("A").get<std::vector<std::vector<float>>>();
    auto b = pair.at("B").get<std::vector<std::vector<float>>>();
    const auto dot = [](const std::vector<float>& x, const std::vector<float>& y) {
        double sum = 0;
        for (std::size_t i = 0; i < x.size(); ++i) sum += double{x[i]} * y[i];
        return sum;
    };
    const auto plain_a = a, plain_b = b;
    for (auto* rows : {&a, &b}) {
        for (auto& row : *rows) {
            rotate_row(row.data(), static_cast<std::int64_t>(row.size()), d, signs);
        }
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
        for (std::size_t j = 0; j < b.size(); ++j) {
            EXPECT_EQ(dot(a[i], b[j]), dot(plain_a[i], plain_b[j]));  // integers over 4: exact
        }
    }
}

// The definition by the matrix itself: every length, so every way to cut the last group.
TEST(Hadamard, RaggedRowsAreCutIntoPowersOfTwo) {
    const SignBits signs = fresh_signs({7, 8, 9, 2});
    for (int d : {16, 128}) {
        for (int cols = 0; cols <= 300; ++cols) {
            std::vector<float> x(static_cast<std::size_t>(cols));
            for (std::size_t i = 0; i < x.size(); ++i) {
                x[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50);
            }
            std::vector<float> y = x;
            rotate_row(y.data(), cols, d, signs);
            for (int group = 0; group < cols; group += d) {
                int start = group, rest = std::min(d, cols - group);
                while (rest > 0) {
                    int part = 1;
                    while (2 * part <= rest) part *= 2;
                    for (int i = 0; i < part; ++i) {
                        double sum = 0;
                        for (int j = 0; j < part; ++j) {
                            const bool odd = __builtin_popcount(static_cast<unsigned>(i & j)) % 2;
                            const bool negative = odd != is_negative(signs, start - group + j);
                            const double value = x[static_cast<std::size_t>(start + j)];
                            sum += negative ? -value : value;
                        }
                        ASSERT_NEAR(y[static_cast<std::size_t>(start + i)],
                                    sum / std::sqrt(double(part)), 2e-4)
                            << cols << " " << start + i;
                    }
                    start += part;
                    rest -= part;
                }
            }
        }
    }
}

TEST(Hadamard, SignsDependOnWhatBothOperandsShare) {
    const NoiseAddress a{1, 2, 3, 0x34}, b{1, 2, 3, 0x35}, other_batch{1, 2, 3, 0x54};
    EXPECT_EQ(fresh_signs(a), fresh_signs(b));
    EXPECT_EQ(fresh_signs(a), fresh_signs(other_batch));
    for (const NoiseAddress& other : {NoiseAddress{9, 2, 3, 0x34}, NoiseAddress{1, 9, 3, 0x34},
                                      NoiseAddress{1, 2, 9, 0x34}, NoiseAddress{1, 2, 3, 0x32}}) {
        EXPECT_NE(fresh_signs(a), fresh_signs(other));
    }
    EXPECT_EQ(fixed_signs(), fresh_signs({}));
    int negative = 0;
    for (int i = 0; i < 128; ++i) negative += is_negative(fixed_signs(), i) ? 1 : 0;
    EXPECT_GT(negative, 40);
    EXPECT_LT(negative, 88);
}

}  // namespace
}  // namespace subbyte::formats
