// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// GEMMs that add to their result, and how the threads share one.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "subbyte/core/parallel.h"
#include "tests/kernels/gemm_checks.h"

namespace subbyte::kernels {
namespace {

using formats::parse_spec;
using formats::QuantSpec;

// Ragged; K = 0; K in slices of every kernel; one tile and less.
const std::vector<Shape> kShapes{{13, 70, 200}, {4, 3, 0}, {7, 33, 9000}, {6, 32, 128}, {1, 1, 1}};

std::vector<float> product(const Shape& s, const QuantSpec& spec, Operand& a, Operand& b,
                           std::vector<float> d, bool add) {
    gemm({s.m, s.n, s.k, spec, spec}, {.a = a.view(), .b = b.view(), .d = d.data(), .add = add});
    return d;
}

void multiply_by_loops(std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                       const float* b, float* d) {
    for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (std::int64_t l = 0; l < k; ++l) sum += a[i * k + l] * b[j * k + l];
            d[i * n + j] = sum;
        }
    }
}

TEST(GemmAdd, AddsTheProductThatAPlainGemmGives) {
    set_dense_matmul(multiply_by_loops);
    std::vector<std::string> kernels{"decode_dense", "reference"};
    for (const KernelUnderTest& kernel : kKernels) {
        if (available(kernel.name)) kernels.push_back(kernel.name);
    }
    for (const std::string& kernel : kernels) {
        const Forced forced(kernel);
        for (const Shape& s : kShapes) {
            // With a guard the finished sums are multiplied by a factor.
            for (const char* text : {"e2m1:1x128:f32", "e2m1:1x16:ue4m3+f32", "e2m1:1x32:e8m0",
                                     "int4:1x32:e8m0/floor:guard"}) {
                const QuantSpec spec = parse_spec(text);
                Operand a = pack(values(s.m * s.k, 1), s.m, s.k, spec);
                Operand b = pack(values(s.n * s.k, 2), s.n, s.k, spec);
                const std::vector<float> before = values(s.m * s.n, 3);
                const std::vector<float> plain = product(s, spec, a, b, before, false);
                const std::vector<float> sum = product(s, spec, a, b, before, true);
                for (std::size_t i = 0; i < sum.size(); ++i) {
                    ASSERT_EQ(sum[i], before[i] + plain[i])
                        << kernel << " " << text << " " << s.m << " " << s.n << " " << s.k;
                }
            }
        }
    }
    set_dense_matmul(nullptr);
}

// Any number of threads, in any order, one after the other too.
TEST(GemmThreads, ResultsDoNotDependOnHowTasksAreDealt) {
    const auto threads = [](std::int64_t number, bool backwards) -> ParallelFor {
        return [=](std::int64_t count, std::int64_t,
                   const std::function<void(std::int64_t, std::int64_t)>& body) {
            std::vector<std::thread> all;
            for (std::int64_t t = 0; t < number; ++t) {
                all.emplace_back([&body, t, number, count, backwards] {
                    for (std::int64_t i = t; i < count; i += number) {
                        const std::int64_t at = backwards ? count - 1 - i : i;
                        body(at, at + 1);
                    }
                });
            }
            for (std::thread& thread : all) thread.join();
        };
    };
    const Shape s{150, 700, 1500};
    for (const char* text : {"e2m1:1x128:f32", "e2m1:1x16:ue4m3+f32"}) {
        const QuantSpec spec = parse_spec(text);
        Operand a = pack(values(s.m * s.k, 1), s.m, s.k, spec);
        Operand b = pack(values(s.n * s.k, 2), s.n, s.k, spec);
        for (const KernelUnderTest& kernel : kKernels) {
            if (!available(kernel.name)) continue;
            const std::vector<float> expected = multiply(s, spec, a, spec, b, kernel.name);
            for (const ParallelFor& pool :
                 {threads(1, true), threads(2, false), threads(3, true), threads(7, false)}) {
                set_parallel_for(pool);
                EXPECT_EQ(multiply(s, spec, a, spec, b, kernel.name), expected) << kernel.name;
                set_parallel_for(nullptr);
            }
        }
    }
}

// Operands so large that tasks are cut in every way there is (B small, A small, both large): rows
// and columns of the product are what a GEMM of these rows and columns alone gives.
TEST(GemmThreads, LargeProductsAreThoseOfTheirParts) {
    const auto part = [](const Operand& whole, std::int64_t first, std::int64_t count,
                         std::int64_t k) {
        Operand some;
        const std::int64_t bytes = k / 2, tiles = k / 128;
        some.codes.assign(whole.codes.begin() + first * bytes,
                          whole.codes.begin() + (first + count) * bytes);
        some.scales.assign(whole.scales.begin() + first * tiles,
                           whole.scales.begin() + (first + count) * tiles);
        some.levels = whole.levels;
        return some;
    };
    const QuantSpec spec = parse_spec("e2m1:1x128:f32");
    for (const Shape& s : {Shape{100, 20100, 512}, Shape{20100, 100, 512}, Shape{1130, 1170, 4608},
                           Shape{60, 1100, 4608}}) {
        Operand a = pack(values(s.m * s.k, 1), s.m, s.k, spec);
        Operand b = pack(values(s.n * s.k, 2), s.n, s.k, spec);
        for (const KernelUnderTest& kernel : kKernels) {
            if (!available(kernel.name)) continue;
            const std::vector<float> whole = multiply(s, spec, a, spec, b, kernel.name);
            const std::int64_t row = s.m - 13, col = s.n - 45;
            for (const auto& [i, j] :
                 {std::pair{row, col}, {std::int64_t{0}, col}, {row / 2, 7L}}) {
                Operand some_a = part(a, i, 13, s.k), some_b = part(b, j, 45, s.k);
                const std::vector<float> d =
                    multiply({13, 45, s.k}, spec, some_a, spec, some_b, kernel.name);
                for (std::int64_t r = 0; r < 13; ++r) {
                    for (std::int64_t c = 0; c < 45; ++c) {
                        ASSERT_EQ(whole[static_cast<std::size_t>((i + r) * s.n + j + c)],
                                  d[static_cast<std::size_t>(r * 45 + c)])
                            << kernel.name << " " << s.m << "x" << s.n << " " << i << " " << j;
                    }
                }
            }
        }
    }
}

}  // namespace
}  // namespace subbyte::kernels
