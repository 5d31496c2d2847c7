// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels that multiply packed codes, and what is asked of each of their results.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "subbyte/kernels/gemm/gemm.h"
#include "tests/kernels/gemm_operands.h"

namespace subbyte::kernels {

// A kernel, the elements it takes, and how many roundings of float32 its result has: one for each
// scaled block, one for each code where the codes are summed in float32 too.
struct KernelUnderTest {
    std::string name;
    std::vector<std::string> elements;
    bool exact_blocks;
};

inline const std::vector<KernelUnderTest> kKernels{
    {"avx512_vnni", {"e2m1", "e2m3", "int4", "int8", "mxint8"}, true},
    {"avx512_bf16",
     {"e4m3", "e5m2", "e3m4", "e2m3", "e3m2", "e2m1", "int4", "int8", "mxint8", "bf16"},
     false},
    {"avx2_maddubs", {"e2m1", "int4"}, true},
    {"avx2_maddwd", {"e2m1", "e2m3", "int4", "int8", "mxint8"}, true},
    {"avx2_fma",
     {"e4m3", "e5m2", "e3m4", "e2m3", "e3m2", "e2m1", "int4", "int8", "mxint8", "bf16"},
     false},
};

inline bool available(const std::string& kernel) {
    const formats::QuantSpec spec = formats::parse_spec("int4:row:f32");
    for (const Candidate& candidate : explain_gemm({1, 1, 1, spec, spec})) {
        if (candidate.kernel == kernel) return candidate.isa <= max_isa();
    }
    ADD_FAILURE() << "no kernel " << kernel;
    return false;
}

// Forces a kernel while it lives.
class Forced {
public:
    explicit Forced(const std::string& kernel) { force_kernels("gemm=" + kernel); }
    ~Forced() { force_kernels(""); }
};

inline std::vector<float> multiply(const Shape& s, const formats::QuantSpec& a_spec, Operand& a,
                                   const formats::QuantSpec& b_spec, Operand& b,
                                   const std::string& kernel) {
    const Forced forced(kernel);
    // A result that is not written shows.
    std::vector<float> d(static_cast<std::size_t>(s.m * s.n), 12345.0f);
    const GemmRun run = gemm({s.m, s.n, s.k, a_spec, b_spec}, {a.view(), b.view(), d.data()});
    EXPECT_EQ(run.kernel, kernel);
    EXPECT_TRUE(run.native);
    return d;
}

inline double largest_error_over_bound(const Shape& s, const Operand& a, const Operand& b,
                                       const std::vector<float>& d, double roundings) {
    double worst = 0;
    for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t j = 0; j < s.n; ++j) {
            double sum = 0, absolute = 0, sizes = 0;
            for (std::int64_t l = 0; l < s.k; ++l) {
                const double x = a.decoded[static_cast<std::size_t>(i * s.k + l)];
                const double y = b.decoded[static_cast<std::size_t>(j * s.k + l)];
                sum += x * y;
                absolute += std::abs(x * y);
                sizes += std::abs(x) + std::abs(y);
            }
            const double error =
                std::abs(static_cast<double>(d[static_cast<std::size_t>(i * s.n + j)]) - sum);
            // The second term: subnormal values and results have fewer digits.
            const double bound = roundings * 0x1p-24 * absolute + 0x1p-149 * (1 + sizes);
            if (std::isnan(error)) return HUGE_VAL;
            worst = std::max(worst, error / bound);
        }
    }
    return worst;
}

inline double roundings(const KernelUnderTest& kernel, std::int64_t k) {
    // Blocks have 16 codes or more. Three of the six others: two scale products and the decoded
    // values, which are rounded where there is a second level.
    return 6.0 + static_cast<double>(kernel.exact_blocks ? (k + 15) / 16 : k + (k + 15) / 16);
}

}  // namespace subbyte::kernels
