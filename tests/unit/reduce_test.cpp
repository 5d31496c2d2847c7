// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/reduce.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace subbyte::ops {
namespace {

// Small integers, exact in every dtype: x[i] = (7 i mod 31) - 15.
at::Tensor integers(std::int64_t count, at::ScalarType dtype) {
    at::Tensor x = at::empty({count}, at::kDouble);
    for (std::int64_t i = 0; i < count; ++i) {
        x.mutable_data_ptr<double>()[i] = static_cast<double>(7 * i % 31 - 15);
    }
    return x.to(dtype);
}

constexpr std::int64_t kCounts[] = {0, 1, 7, 31, 32, 33, 4096, 4097, 100'003};

TEST(Reduce, ExactOnIntegers) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
        for (const std::int64_t count : kCounts) {
            const at::Tensor x = integers(count, dtype);
            double total = 0, squares = 0, largest = 0;
            for (std::int64_t i = 0; i < count; ++i) {
                const double value = static_cast<double>(7 * i % 31 - 15);
                total += value;
                squares += value * value;
                largest = std::max(largest, std::fabs(value));
            }
            EXPECT_EQ(sum(x), total) << count;
            EXPECT_EQ(squared_norm(x), squares) << count;
            EXPECT_EQ(norm(x), std::sqrt(squares)) << count;
            EXPECT_EQ(dot(x, x), squares) << count;
            EXPECT_EQ(difference_norm(x, x.mul(-1)), std::sqrt(4 * squares)) << count;
            EXPECT_EQ(abs_max(x), largest) << count;
            EXPECT_TRUE(all_finite(x)) << count;
        }
    }
}

// Wherever it stands, also in the tail of a chunk; a NaN of either sign wins over infinity.
TEST(Reduce, SeesASingleSpecialValue) {
    const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
        for (const std::int64_t place : {0, 5, 4095, 4096, 8190, 8199}) {
            for (const double special : {-100.0, inf, -inf, nan, -nan}) {
                at::Tensor x = integers(8200, dtype);
                x[place].fill_(special);
                if (std::isnan(special)) {
                    x[(place + 100) % 8200].fill_(inf);
                    EXPECT_TRUE(std::isnan(abs_max(x)));
                } else {
                    EXPECT_EQ(abs_max(x), std::fabs(special));
                }
                EXPECT_EQ(all_finite(x), std::isfinite(special));
            }
        }
    }
}

TEST(Reduce, SameBitsForAnyThreadCount) {
    const int before = at::get_num_threads();
    const at::Tensor x = integers(300'001, at::kFloat).mul(0.1f).sin();
    at::set_num_threads(1);
    const double expected[] = {sum(x), squared_norm(x), abs_max(x)};
    for (const int threads : {2, 3}) {
        at::set_num_threads(threads);
        EXPECT_EQ(sum(x), expected[0]);
        EXPECT_EQ(squared_norm(x), expected[1]);
        EXPECT_EQ(abs_max(x), expected[2]);
    }
    at::set_num_threads(before);
}

}  // namespace
}  // namespace subbyte::ops
