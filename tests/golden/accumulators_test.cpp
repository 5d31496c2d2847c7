// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// FP8 dot products against their exact values: our kernels sum in float32, and no accumulator of
// fewer digits may come closer than their bound.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "subbyte/kernels/gemm/gemm.h"
#include "tests/golden/hex.h"

namespace subbyte::kernels {
namespace {

struct Codes {
    std::vector<std::uint8_t> codes;
    std::vector<double> values;
    float scale = 1.0f;
    formats::PackedView view() { return {codes.data(), &scale, nullptr, nullptr, nullptr}; }
};

Codes codes_of(const std::string& hex, const formats::ElementFormat& element) {
    Codes result;
    for (const std::uint32_t code : golden::hex(hex, 2)) {
        result.codes.push_back(static_cast<std::uint8_t>(code));
        result.values.push_back(formats::decode(element, code));
    }
    return result;
}

TEST(Accumulators, DotProductsStayWithinTheirBoundOfTheExactValue) {
    const formats::QuantSpec spec = formats::parse_spec("e4m3:row:f32");
    const auto file = golden::load("accumulators.json");
    int narrower = 0;
    for (const auto& entry : file.at("cases")) {
        Codes a = codes_of(entry.at("a_codes_hex"), *spec.element);
        Codes b = codes_of(entry.at("b_codes_hex"), *spec.element);
        const std::int64_t k = entry.at("K");
        const double exact = entry.at("exact");
        double sum = 0, absolute = 0;  // exact in double
        for (std::size_t i = 0; i < a.values.size(); ++i) {
            sum += a.values[i] * b.values[i];
            absolute += std::abs(a.values[i] * b.values[i]);
        }
        ASSERT_EQ(sum, exact);
        const double bound = static_cast<double>(k + (k + 127) / 128 + 6) * 0x1p-24 * absolute;
        const GemmProblem problem{1, 1, k, spec, spec};
        int kernels = 0;
        for (const Candidate& candidate : explain_gemm(problem)) {
            if (!candidate.refusal.empty() || candidate.isa > max_isa()) continue;
            force_kernels("gemm=" + std::string(candidate.kernel));
            float d = 0;
            gemm(problem, {.a = a.view(), .b = b.view(), .d = &d});
            force_kernels("");
            EXPECT_LE(std::abs(double{d} - exact), bound) << candidate.kernel << " K " << k;
            ++kernels;
        }
        EXPECT_GT(kernels, 0);
        for (const char* model : {"bf16_sequential", "trunc14_sequential"}) {
            const double value = golden::number(entry.at("results").at(model).at("value"));
            narrower += std::abs(value - exact) > bound ? 1 : 0;
        }
    }
    EXPECT_GT(narrower, 5) << "the bound must tell float32 from narrower accumulators";
}

}  // namespace
}  // namespace subbyte::kernels
