// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The elementwise kernels against double precision, and the instruction sets against each other.
#include "subbyte/kernels/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "subbyte/core/cpu.h"
#include "subbyte/core/parallel.h"
#include "subbyte/core/philox.h"

namespace subbyte::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Numbers spread over [-scale, scale].
std::vector<float> values(std::int64_t count, std::uint16_t role, float scale) {
    std::vector<float> v(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < v.size(); ++i) {
        v[i] = scale * (static_cast<float>(noise_bits16({7, 0, 0, role}, i)) / 32768.0f - 1.0f);
    }
    return v;
}

float bf16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return std::bit_cast<float>((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000u);
}

struct AtIsa {
    explicit AtIsa(Isa isa) : before(max_isa()) { set_max_isa(isa); }
    ~AtIsa() { set_max_isa(before); }
    Isa before;
};

std::vector<Isa> isas() {
    std::vector<Isa> all;
    for (Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx512}) {
        if (isa <= max_isa()) all.push_back(isa);
    }
    return all;
}

TEST(CrossEntropy, MatchesDoublePrecision) {
    for (std::int64_t vocabulary : {1, 2, 15, 16, 17, 31, 100, 1000, 32003}) {
        const std::int64_t rows = 3;
        const std::vector<float> logits = values(rows * vocabulary, 1, 20.0f);
        const std::vector<std::int64_t> labels{0, vocabulary - 1, vocabulary / 2};
        std::vector<float> gradient = logits, losses(rows);
        softmax_cross_entropy(gradient.data(), labels.data(), rows, vocabulary, true,
                              losses.data());
        for (std::int64_t r = 0; r < rows; ++r) {
            const float* row = logits.data() + r * vocabulary;
            double total = 0;
            for (std::int64_t i = 0; i < vocabulary; ++i) total += std::exp(double(row[i]));
            EXPECT_NEAR(losses[r], std::log(total) - row[labels[r]], 4e-6) << vocabulary;
            for (std::int64_t i = 0; i < vocabulary; ++i) {
                const double p = std::exp(double(row[i])) / total;
                EXPECT_NEAR(gradient[r * vocabulary + i], p - (i == labels[r]), 1e-6 * p + 1e-7);
            }
        }
        std::vector<float> kept = logits, only(rows);
        softmax_cross_entropy(kept.data(), labels.data(), rows, vocabulary, false, only.data());
        EXPECT_EQ(kept, logits);
        EXPECT_EQ(only, losses);
    }
}

TEST(CrossEntropy, IgnoredRowsHaveNoLossAndNoGradient) {
    std::vector<float> logits = values(40, 1, 3.0f);
    const std::int64_t labels[] = {-100, 3};
    float losses[2];
    softmax_cross_entropy(logits.data(), labels, 2, 20, true, losses);
    EXPECT_EQ(losses[0], 0.0f);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(logits[i], 0.0f);
    EXPECT_GT(losses[1], 0.0f);
}

TEST(CrossEntropy, MaskedLogitsAndNumbersThatAreNone) {
    const std::int64_t label = 1;
    float loss;
    std::vector<float> masked = values(33, 1, 3.0f);
    masked[20] = -kInf;
    softmax_cross_entropy(masked.data(), &label, 1, 33, true, &loss);
    EXPECT_EQ(masked[20], 0.0f);
    EXPECT_TRUE(std::isfinite(loss));
    for (float bad : {kNan, kInf}) {
        for (std::size_t place : {0u, 5u, 32u}) {
            std::vector<float> logits = values(33, 1, 3.0f);
            logits[place] = bad;
            softmax_cross_entropy(logits.data(), &label, 1, 33, true, &loss);
            EXPECT_TRUE(std::isnan(loss)) << bad << " at " << place;
        }
    }
}

// Logits far apart: nothing overflows, and the loss is the difference.
TEST(CrossEntropy, LargeLogits) {
    float logits[] = {3e38f, -3e37f, 0.0f}, loss;
    const std::int64_t label = 1;
    softmax_cross_entropy(logits, &label, 1, 3, true, &loss);
    EXPECT_FLOAT_EQ(loss, 3.3e38f);
    EXPECT_EQ(logits[0], 1.0f);
    EXPECT_EQ(logits[1], -1.0f);
}

TEST(SwiGlu, MatchesDoublePrecision) {
    for (std::int64_t count : {1, 15, 16, 17, 100, 5000}) {
        const std::vector<float> a = values(count, 1, 12.0f), b = values(count, 2, 3.0f),
                                 g = values(count, 3, 1.0f);
        const auto n = static_cast<std::size_t>(count);
        std::vector<float> out(n), da(n), db(n);
        swiglu(a.data(), b.data(), count, out.data(), nullptr, nullptr);
        swiglu_backward(a.data(), b.data(), g.data(), count, da.data(), db.data());
        for (std::size_t i = 0; i < n; ++i) {
            const double s = 1.0 / (1.0 + std::exp(-double(a[i])));
            const auto near = [](float x, double y) {
                EXPECT_NEAR(x, y, 1e-6 * std::abs(y) + 2e-7);
            };
            near(out[i], a[i] * s * b[i]);
            near(db[i], g[i] * a[i] * s);
            near(da[i], g[i] * double(b[i]) * s * (1.0 + a[i] * (1.0 - s)));
        }
    }
}

TEST(SwiGlu, SavedCopiesGiveTheGradientOfTheRoundedInputs) {
    const std::int64_t count = 77;
    std::vector<float> a = values(count, 1, 9.0f), b = values(count, 2, 3.0f);
    const std::vector<float> g = values(count, 3, 1.0f);
    std::vector<float> out(77), da(77), db(77), da16(77), db16(77);
    std::vector<std::uint16_t> a16(77), b16(77);
    swiglu(a.data(), b.data(), count, out.data(), a16.data(), b16.data());
    for (float& x : a) x = bf16(x);
    for (float& x : b) x = bf16(x);
    for (std::size_t i = 0; i < 77; ++i) {
        ASSERT_EQ(a16[i], std::bit_cast<std::uint32_t>(a[i]) >> 16);
        ASSERT_EQ(b16[i], std::bit_cast<std::uint32_t>(b[i]) >> 16);
    }
    swiglu_backward(a.data(), b.data(), g.data(), count, da.data(), db.data());
    swiglu_backward(a16.data(), b16.data(), g.data(), count, da16.data(), db16.data());
    EXPECT_EQ(da, da16);
    EXPECT_EQ(db, db16);
}

TEST(SwiGlu, ExtremesKeepTheirMeaning) {
    const float gate[] = {-200.0f, 200.0f, 0.0f, -0.0f, kNan, kInf};
    const float up[] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    float out[6];
    std::uint16_t saved[6], other[6];
    swiglu(gate, up, 6, out, saved, other);
    EXPECT_EQ(out[0], 0.0f);
    EXPECT_EQ(out[1], 200.0f);
    EXPECT_EQ(out[2], 0.0f);
    EXPECT_TRUE(std::isnan(out[4]));
    EXPECT_EQ(out[5], kInf);
    EXPECT_EQ(saved[4] & 0x7F80, 0x7F80);
    EXPECT_NE(saved[4] & 0x7F, 0);
    EXPECT_EQ(saved[5], 0x7F80);
}

TEST(Elementwise, SameBitsOnEveryInstructionSetAndThreadCount) {
    const std::int64_t count = 20003, rows = 7, vocabulary = 2857;
    const std::vector<float> a = values(count, 1, 100.0f), b = values(count, 2, 3.0f);
    const std::vector<std::int64_t> labels{5, 0, -100, 2856, 44, 1000, 7};
    std::vector<std::vector<float>> results;
    for (Isa isa : isas()) {
        const AtIsa at(isa);
        for (std::int64_t parts : {1, 3}) {
            set_parallel_for([parts](std::int64_t n, std::int64_t, const auto& body) {
                for (std::int64_t p = parts - 1; p >= 0; --p) {
                    if (n * p / parts < n * (p + 1) / parts)
                        body(n * p / parts, n * (p + 1) / parts);
                }
            });
            std::vector<float> out(count), da(count), db(count), losses(rows);
            std::vector<float> logits(a.begin(), a.begin() + rows * vocabulary);
            swiglu(a.data(), b.data(), count, out.data(), nullptr, nullptr);
            swiglu_backward(a.data(), b.data(), b.data(), count, da.data(), db.data());
            softmax_cross_entropy(logits.data(), labels.data(), rows, vocabulary, true,
                                  losses.data());
            for (const auto* more : {&da, &db, &logits, &losses}) {
                out.insert(out.end(), more->begin(), more->end());
            }
            results.push_back(std::move(out));
        }
    }
    set_parallel_for(nullptr);
    for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

}  // namespace
}  // namespace subbyte::kernels
