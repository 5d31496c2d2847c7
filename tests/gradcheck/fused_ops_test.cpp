// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Ops that do several steps at once, against the single steps: the same bits, forward and backward.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/ops/attention.h"
#include "subbyte/ops/rms_norm.h"
#include "subbyte/ops/rope.h"
#include "subbyte/ops/swiglu.h"
#include "subbyte/ops/swiglu_mlp.h"
#include "tests/gradcheck/op_bits.h"

namespace subbyte::ops {
namespace {

LinearContext context_of(const std::string& recipe, std::uint32_t layer) {
    return ops::context_of(plan::find_recipe(recipe), layer);
}

Tensors single_mlp(const Tensors& in, const std::string& recipe, Keep keep) {
    const at::Tensor a = linear(in[0], in[1], context_of(recipe, 1));
    const at::Tensor b = linear(in[0], in[2], context_of(recipe, 2));
    return {linear(swiglu(a, b, keep), in[3], context_of(recipe, 3))};
}

Tensors fused_mlp(const Tensors& in, const std::string& recipe, Keep keep) {
    return {swiglu_mlp(in[0], {in[1], context_of(recipe, 1)}, {in[2], context_of(recipe, 2)},
                       {in[3], context_of(recipe, 3)}, keep)};
}

Tensors mlp_inputs(std::int64_t tokens, std::int64_t width, std::int64_t inner) {
    at::manual_seed(1);
    return {at::randn({2, tokens, width}), at::randn({inner, width}), at::randn({inner, width}),
            at::randn({width, inner})};
}

TEST(FusedOps, MlpGivesTheBitsOfItsLayers) {
    for (const std::string recipe :
         {"fp4", "nvfp4", "mxfp4", "int8", "fp8", "bf16", "fp32", "int4"}) {
        for (const Keep keep : {Keep::kFp32, Keep::kBf16, Keep::kInt8}) {
            for (const auto& [tokens, width, inner] :
                 {std::tuple{75L, 40L, 301L}, {1L, 16L, 33L}, {140L, 129L, 515L}}) {
                const Tensors in = mlp_inputs(tokens, width, inner);
                expect_equal(
                    run([&](const Tensors& x) { return fused_mlp(x, recipe, keep); }, in),
                    run([&](const Tensors& x) { return single_mlp(x, recipe, keep); }, in),
                    recipe + ", kept as " + keep_names()[1 + static_cast<std::size_t>(keep)]);
            }
        }
    }
}

TEST(FusedOps, MlpGivesTheSameBitsForAnyNumberOfThreads) {
    const Tensors in = mlp_inputs(300, 64, 700);
    const int before = at::get_num_threads();
    Tensors expected;
    for (const int threads : {1, 2, 3}) {
        at::set_num_threads(threads);
        const Tensors now =
            run([](const Tensors& x) { return fused_mlp(x, "fp4", Keep::kBf16); }, in);
        if (expected.empty()) expected = now;
        expect_equal(now, expected, std::to_string(threads) + " threads");
    }
    at::set_num_threads(before);
}

// Later micro-batches add their weight gradients in place.
TEST(FusedOps, MlpAddsToGradientsThatAreThere) {
    const Tensors in = mlp_inputs(30, 24, 70);
    Tensors sums;
    for (const bool fused : {true, false}) {
        Tensors w;
        for (std::size_t i = 1; i < in.size(); ++i) w.push_back(in[i].clone().requires_grad_(true));
        for (int batch = 0; batch < 2; ++batch) {
            const at::Tensor x = in[0].clone().requires_grad_(true);
            Tensors leaves{x, w[0], w[1], w[2]};
            const auto context = [&](std::uint32_t layer) {
                LinearContext c = context_of("int8", layer);
                c.micro_batch = batch;
                c.adds_gradients = fused && batch > 0;
                return c;
            };
            at::Tensor y;
            if (fused) {
                y = swiglu_mlp(x, {w[0], context(1)}, {w[1], context(2)}, {w[2], context(3)},
                               Keep::kBf16);
            } else {
                const at::Tensor a = linear(x, w[0], context(1)), b = linear(x, w[1], context(2));
                y = linear(swiglu(a, b, Keep::kBf16), w[2], context(3));
            }
            y.sum().backward();
        }
        for (const at::Tensor& t : w) sums.push_back(t.grad());
    }
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(sums[i], sums[i + 3])) << i;
}

TEST(FusedOps, MlpRefusesASecondBackwardAndWrongShapes) {
    const Tensors in = mlp_inputs(5, 8, 12);
    Tensors leaves;
    for (const at::Tensor& x : in) leaves.push_back(x.clone().requires_grad_(true));
    const at::Tensor y = fused_mlp(leaves, "int8", Keep::kBf16)[0];
    y.sum().backward();
    EXPECT_ANY_THROW(y.sum().backward());
    Tensors wrong = leaves;
    wrong[2] = at::randn({11, 8}).requires_grad_(true);
    EXPECT_THROW(fused_mlp(wrong, "int8", Keep::kBf16), Error);
    wrong = leaves;
    wrong[3] = at::randn({8, 13}).requires_grad_(true);
    EXPECT_THROW(fused_mlp(wrong, "int8", Keep::kBf16), Error);
}

TEST(FusedOps, LayersOfOneInputGiveTheBitsOfEach) {
    at::manual_seed(4);
    const Tensors in{at::randn({2, 75, 40}), at::randn({33, 40}), at::randn({16, 40}),
                     at::randn({50, 40})};
    for (const std::string recipe : {"fp4", "nvfp4", "int8", "fp8", "bf16", "fp32"}) {
        const auto group = [&](const Tensors& x) {
            return linear_group(x[0], {{x[1], context_of(recipe, 1)},
                                       {x[2], context_of(recipe, 2)},
                                       {x[3], context_of(recipe, 3)}});
        };
        const auto single = [&](const Tensors& x) {
            Tensors y;
            for (std::uint32_t i = 1; i < 4; ++i) {
                y.push_back(linear(x[0], x[i], context_of(recipe, i)));
            }
            return y;
        };
        expect_equal(run(group, in), run(single, in), recipe);
    }
}

TEST(FusedOps, RotaryAttentionGivesTheBitsOfRopeAndAttention) {
    at::manual_seed(2);
    for (const bool compact : {false, true}) {
        for (const auto& [tokens, heads, groups, size] : {std::tuple{133L, 3L, 3L, 64L},
                                                          {40L, 4L, 2L, 32L},
                                                          {7L, 2L, 2L, 10L},
                                                          {1L, 1L, 1L, 8L},
                                                          {150L, 1L, 1L, 130L}}) {
            const Tensors in{at::randn({2, tokens, heads, size}),
                             at::randn({2, tokens, groups, size}),
                             at::randn({2, tokens, groups, size})};
            expect_equal(run(
                             [&](const Tensors& x) {
                                 return Tensors{rotary_attention(x[0], x[1], x[2], 1e4, compact)};
                             },
                             in),
                         run(
                             [&](const Tensors& x) {
                                 return Tensors{causal_attention(rope(x[0], 1e4), rope(x[1], 1e4),
                                                                 x[2], compact)};
                             },
                             in),
                         std::to_string(tokens) + " tokens");
        }
    }
}

TEST(FusedOps, NormedSumsAreTheSumAndItsNorm) {
    at::manual_seed(3);
    for (const std::int64_t size : {1, 15, 16, 64, 100}) {
        const Tensors in{at::randn({3, 50, size}), at::randn({3, 50, size}), at::randn({size})};
        expect_equal(run(
                         [](const Tensors& x) {
                             const NormedSum s = add_rms_norm(x[0], x[1], x[2], 1e-5);
                             return Tensors{s.sum, s.normed.tensor()};
                         },
                         in),
                     run(
                         [](const Tensors& x) {
                             const at::Tensor sum = x[0] + x[1];
                             return Tensors{sum, rms_norm(sum, x[2], 1e-5)};
                         },
                         in),
                     "sum");
        const Tensors two{in[0], in[2]};
        expect_equal(run(
                         [](const Tensors& x) {
                             const NormedSum s = add_rms_norm(x[0], {}, x[1], 1e-5);
                             return Tensors{s.sum, s.normed.tensor()};
                         },
                         two),
                     run(
                         [](const Tensors& x) {
                             return Tensors{x[0], rms_norm(x[0], x[1], 1e-5)};
                         },
                         two),
                     "one");
        // Only one of the two is used.
        for (const bool normed : {false, true}) {
            expect_equal(
                run(
                    [&](const Tensors& x) {
                        const NormedSum s = add_rms_norm(x[0], {}, x[1], 1e-5);
                        return Tensors{normed ? s.normed.tensor() : s.sum + 0 * x[1]};
                    },
                    two),
                run(
                    [&](const Tensors& x) {
                        return Tensors{normed ? rms_norm(x[0], x[1], 1e-5) : x[0] + 0 * x[1]};
                    },
                    two),
                normed ? "normed" : "sum only");
        }
    }
    EXPECT_THROW(add_rms_norm(at::randn({3, 4}), at::randn({4, 3}), at::randn({4}), 1e-5), Error);
}

}  // namespace
}  // namespace subbyte::ops
