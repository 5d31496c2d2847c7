// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/kernels/gemm/gemm_report.h"
#include "tests/kernels/gemm_operands.h"

namespace subbyte::kernels {
namespace {

using formats::PackedView;
using formats::parse_spec;
using formats::QuantSpec;

// Float32 triple loop: what a dense matmul of the layer above does, up to the order of its sums.
void plain_matmul(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                  float* d) {
    for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (std::int64_t l = 0; l < k; ++l) sum += a[i * k + l] * b[j * k + l];
            d[i * n + j] = sum;
        }
    }
}

// Has the dense matmul installed and a kernel forced while it lives.
class Installed {
public:
    explicit Installed(const std::string& kernel) {
        set_dense_matmul(plain_matmul);
        force_kernels("gemm=" + kernel);
    }
    ~Installed() {
        set_dense_matmul(nullptr);
        force_kernels("");
    }
};

TEST(Gemm, EveryKernelStaysWithinItsBoundOfTheDoubleSum) {
    const std::vector<std::pair<std::string, std::string>> pairs{
        {"fp8", "e4m3:128x128:f32"},
        {"fp4", "e2m1:128x128:f32"},
        {"e5m2:1x128:f32", "fp8"},
        {"int8:row:f32", "int8:row:f32"},
        {"int4:1x32:f32", "int4:tensor:f32"},
        {"mxfp4", "mxfp8"},
        {"nvfp4", "e2m1:16x16:ue4m3+f32"},
        {"bf16", "fp32"},
        {"fp32", "fp32"}};
    for (const char* kernel : {"decode_dense", "reference"}) {
        const Installed installed(kernel);
        for (const auto& [a_text, b_text] : pairs) {
            for (const Shape& s :
                 {Shape{1, 1, 1}, Shape{5, 7, 130}, Shape{33, 17, 257}, Shape{3, 2, 15}}) {
                const QuantSpec a_spec = parse_spec(a_text), b_spec = parse_spec(b_text);
                Operand a = pack(values(s.m * s.k, 1), s.m, s.k, a_spec);
                Operand b = pack(values(s.n * s.k, 2), s.n, s.k, b_spec);
                std::vector<float> d(static_cast<std::size_t>(s.m * s.n), -7.0f);
                const GemmRun run =
                    gemm({s.m, s.n, s.k, a_spec, b_spec}, {a.view(), b.view(), d.data()});
                EXPECT_EQ(run.kernel, kernel);
                EXPECT_FALSE(run.native);
                for (std::int64_t i = 0; i < s.m; ++i) {
                    for (std::int64_t j = 0; j < s.n; ++j) {
                        double sum = 0, absolute = 0;
                        for (std::int64_t l = 0; l < s.k; ++l) {
                            const double product =
                                static_cast<double>(
                                    a.decoded[static_cast<std::size_t>(i * s.k + l)]) *
                                static_cast<double>(
                                    b.decoded[static_cast<std::size_t>(j * s.k + l)]);
                            sum += product;
                            absolute += std::abs(product);
                        }
                        // A float32 sum of k products: at most k roundings each way.
                        const double bound =
                            absolute * (run.kernel == "reference"
                                            ? 0x1p-24
                                            : static_cast<double>(s.k + 1) * 0x1p-24);
                        EXPECT_NEAR(d[static_cast<std::size_t>(i * s.n + j)], sum, bound)
                            << kernel << " " << a_text << " x " << b_text;
                    }
                }
            }
        }
    }
}

TEST(Gemm, WithoutADenseMatmulTheReferenceRunsAndSaysWhy) {
    const QuantSpec spec = parse_spec("e4m3:1x8:f32");
    const GemmProblem problem{2, 3, 12, spec, spec};
    const auto candidates = explain_gemm(problem);
    ASSERT_GE(candidates.size(), 2u);
    const Candidate& dense = candidates[candidates.size() - 2];
    EXPECT_EQ(dense.kernel, "decode_dense");
    EXPECT_FALSE(dense.refusal.empty());
    EXPECT_TRUE(candidates.back().chosen);
    Operand a = pack(values(24, 1), 2, 12, spec), b = pack(values(36, 2), 3, 12, spec);
    std::vector<float> d(6);
    const GemmRun run = gemm(problem, {a.view(), b.view(), d.data()});
    EXPECT_EQ(run.kernel, "reference");
    EXPECT_FALSE(run.native);
    force_kernels("gemm=decode_dense");
    EXPECT_THROW(gemm(problem, {a.view(), b.view(), d.data()}), Error);
    force_kernels("gemm=magic");
    EXPECT_THROW(gemm(problem, {a.view(), b.view(), d.data()}), Error);
    force_kernels("");
}

TEST(Gemm, EmptySizes) {
    const QuantSpec spec = parse_spec("fp4");
    std::vector<float> d(6, 5.0f);
    for (const char* kernel : {"decode_dense", "reference"}) {
        const Installed installed(kernel);
        gemm({0, 3, 4, spec, spec}, {{}, {}, nullptr});
        std::fill(d.begin(), d.end(), 5.0f);
        gemm({2, 3, 0, spec, spec}, {{}, {}, d.data()});
        EXPECT_EQ(d, std::vector<float>(6, 0.0f)) << "a sum over nothing is zero";
    }
}

TEST(Gemm, WrongArgumentsAreErrors) {
    const QuantSpec spec = parse_spec("nvfp4");
    std::vector<float> d(6);
    EXPECT_THROW(gemm({2, 3, -1, spec, spec}, {{}, {}, d.data()}), Error);
    EXPECT_THROW(gemm({2, 3, 4, spec, spec}, {{}, {}, d.data()}), Error);
    Operand a = pack(values(8, 1), 2, 4, spec), b = pack(values(12, 2), 3, 4, spec);
    EXPECT_THROW(gemm({2, 3, 4, spec, spec}, {a.view(), b.view(), nullptr}), Error);
    PackedView view = b.view();
    view.scale_codes = nullptr;
    EXPECT_THROW(gemm({2, 3, 4, spec, spec}, {a.view(), view, d.data()}), Error);
}

TEST(Gemm, NanScalesReachTheResult) {
    const QuantSpec spec = parse_spec("fp8");
    std::vector<float> x = values(2 * 130, 1);
    x[130] = std::numeric_limits<float>::quiet_NaN();
    Operand a = pack(x, 2, 130, spec), b = pack(values(130, 2), 1, 130, spec);
    std::vector<float> d(2);
    for (const char* kernel : {"decode_dense", "reference"}) {
        const Installed installed(kernel);
        gemm({2, 1, 130, spec, spec}, {a.view(), b.view(), d.data()});
        EXPECT_TRUE(std::isfinite(d[0]));
        EXPECT_TRUE(std::isnan(d[1]));
    }
}

TEST(GemmReport, CountsRunsPerPairAndKernel) {
    force_kernels("gemm=reference");
    reset_gemm_report();
    const QuantSpec fp8 = parse_spec("fp8"), fp4 = parse_spec("fp4");
    Operand a8 = pack(values(8, 1), 2, 4, fp8), b8 = pack(values(12, 2), 3, 4, fp8);
    Operand b4 = pack(values(12, 2), 3, 4, fp4);
    const auto work = [&] {
        std::vector<float> d(6);
        for (int i = 0; i < 50; ++i) gemm({2, 3, 4, fp8, fp8}, {a8.view(), b8.view(), d.data()});
    };
    std::thread other(work);
    work();
    other.join();
    std::vector<float> d(6);
    gemm({2, 3, 4, fp8, fp4}, {a8.view(), b4.view(), d.data()});
    const auto report = gemm_report();
    ASSERT_EQ(report.size(), 2u);
    EXPECT_EQ(report[0].runs, 100);
    EXPECT_EQ(report[0].kernel, "reference");
    EXPECT_EQ(report[0].multiply_adds, 100.0 * 24);
    EXPECT_FALSE(report[0].native);
    EXPECT_EQ(report[1].a, fp8);
    EXPECT_EQ(report[1].b, fp4);
    EXPECT_EQ(report[1].runs, 1);
    reset_gemm_report();
    EXPECT_TRUE(gemm_report().empty());
    force_kernels("");
}

}  // namespace
}  // namespace subbyte::kernels
