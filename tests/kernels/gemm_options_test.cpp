// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Packed GEMMs of operands with rotations, second levels in patches, other scales and orders.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "subbyte/core/error.h"
#include "tests/kernels/gemm_checks.h"

namespace subbyte::kernels {
namespace {

using formats::parse_spec;
using formats::QuantSpec;

constexpr Shape kShape{9, 37, 203};

const std::vector<std::string> kOptions{"e2m1:1x16:ue4m3+f32:rht16",
                                        "e2m1:1x16:ue4m3+f32:rht128:sr",
                                        "e2m1:1x16:ue4m3+f32:rht16fresh",
                                        "e2m1:1x16:ue4m3+f32@1x64",
                                        "e2m1:1x16:ue5m3",
                                        "e2m1:1x16:ue5m3h",
                                        "e2m1:1x32:e8m0/floor:sr:guard",
                                        "int4:1x32:e8m0/floor:sr:guard",
                                        "e2m1:1x16:ue4m3+f32:4over6",
                                        "e2m1:1x16:ue4m3+f32:torchao",
                                        "int4:1x32:f32:recip",
                                        "e2m1:1x16:ue4m3+f32:rht32:mseden"};

// What the codes mean before a rotation is undone: what the kernels multiply.
std::vector<float> as_multiplied(Operand& operand, QuantSpec spec, std::int64_t rows,
                                 std::int64_t cols) {
    spec.rotation = {};
    std::vector<float> values(static_cast<std::size_t>(rows * cols));
    formats::dequantize_reference(operand.view(), spec, rows, cols, values.data());
    return values;
}

double norm(const std::vector<float>& x, std::int64_t row, std::int64_t cols) {
    double sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) {
        const double v = x[static_cast<std::size_t>(row * cols + c)];
        sum += v * v;
    }
    return std::sqrt(sum);
}

TEST(PackedGemmOptions, WhatOptionsMeanReachesTheResult) {
    const Shape& s = kShape;
    for (const KernelUnderTest& kernel : kKernels) {
        if (!available(kernel.name)) continue;
        for (const std::string& text : kOptions) {
            const QuantSpec spec = parse_spec(text);
            Operand a = pack(values(s.m * s.k, 1), s.m, s.k, spec);
            Operand b = pack(values(s.n * s.k, 2), s.n, s.k, spec);
            const std::vector<float> d = multiply(s, spec, a, spec, b, kernel.name);
            // Rotated or not, the product of the decoded operands; rotating back rounds the
            // reference by the size of a whole group.
            for (std::int64_t i = 0; i < s.m; ++i) {
                for (std::int64_t j = 0; j < s.n; ++j) {
                    double sum = 0;
                    for (std::int64_t l = 0; l < s.k; ++l) {
                        sum +=
                            static_cast<double>(a.decoded[static_cast<std::size_t>(i * s.k + l)]) *
                            static_cast<double>(b.decoded[static_cast<std::size_t>(j * s.k + l)]);
                    }
                    EXPECT_NEAR(d[static_cast<std::size_t>(i * s.n + j)], sum,
                                0x1p-20 * norm(a.decoded, i, s.k) * norm(b.decoded, j, s.k))
                        << kernel.name << " " << text;
                }
            }
            a.decoded = as_multiplied(a, spec, s.m, s.k);
            b.decoded = as_multiplied(b, spec, s.n, s.k);
            EXPECT_LE(largest_error_over_bound(s, a, b, d, roundings(kernel, s.k)), 1)
                << kernel.name << " " << text;
        }
    }
}

TEST(PackedGemmOptions, RotationsMustAgree) {
    if (max_isa() < Isa::kAvx2) return;
    const QuantSpec plain = parse_spec("nvfp4"), rotated = parse_spec("e2m1:1x16:ue4m3+f32:rht16"),
                    fresh = parse_spec("e2m1:1x16:ue4m3+f32:rht16fresh");
    const auto reason = [](const QuantSpec& a, const QuantSpec& b, bool equal_signs) {
        for (const Candidate& candidate : explain_gemm({4, 4, 64, a, b, equal_signs})) {
            if (candidate.kernel == "avx2_fma") return candidate.refusal;
        }
        return Refusal("no such kernel");
    };
    EXPECT_EQ(reason(rotated, rotated, true), "");
    EXPECT_EQ(reason(plain, rotated, true), "operand A is rotated not at all, B by rht16");
    EXPECT_EQ(reason(fresh, rotated, true), "operand A is rotated by rht16fresh, B by rht16");
    EXPECT_EQ(reason(fresh, fresh, false), "the operands are rotated with different signs");

    // Signs that differ are found in the data.
    Operand a = pack(values(4 * 64, 1), 4, 64, fresh), b = pack(values(4 * 64, 2), 4, 64, fresh);
    std::vector<float> d(16);
    const GemmProblem problem{4, 4, 64, fresh, fresh};
    EXPECT_TRUE(gemm(problem, {a.view(), b.view(), d.data()}).native);
    b.signs[0] ^= 4;
    EXPECT_FALSE(gemm(problem, {a.view(), b.view(), d.data()}).native);
    formats::PackedView view = b.view();
    view.signs = nullptr;
    EXPECT_THROW(gemm(problem, {a.view(), view, d.data()}), Error);
}

}  // namespace
}  // namespace subbyte::kernels
