// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The noise of a weight gradient against its definition: G and X are known, so |g_q - g| is too.
#include "subbyte/snip/gradient_noise.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "subbyte/nn/attach.h"
#include "subbyte/nn/init.h"
#include "subbyte/nn/linear.h"
#include "subbyte/snip/statistics_sink.h"

namespace subbyte::snip {
namespace {

at::Tensor numbers(std::int64_t rows, std::int64_t columns, double seed) {
    return at::arange(rows * columns)
        .add(seed)
        .mul(12.9898)
        .sin()
        .mul(43758.5453)
        .frac()
        .view({rows, columns})
        .to(at::kFloat);
}

TEST(GradientNoise, IsTheDifferenceToTheProductInFullPrecision) {
    nn::Linear low(64, 48), high(64, 48), head(64, 48);
    const auto root = std::make_shared<torch::nn::Module>();
    root->register_module("low", low.ptr());
    root->register_module("high", high.ptr());
    root->register_module("head", head.ptr());
    std::vector<nn::Linear> layers{low, high, head};
    for (nn::Linear& layer : layers) nn::initialize(*layer, 1);
    const auto precision = nn::attach_precision(*root, {"head"});
    plan::Plan plan = plan::uniform_plan(precision->table(), "bf16");
    plan.set("low", "fp4");
    precision->set_plan(plan);
    StatisticsSink next(precision->table(), {"fp4"}, {});
    GradientNoiseSink sink(*precision, next);
    precision->observer = &sink;

    at::Tensor exact = at::zeros({48, 64});
    for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
        precision->micro_batch = micro_batch;
        const at::Tensor x = numbers(32, 64, micro_batch), g = numbers(32, 48, 7 + micro_batch);
        for (nn::Linear& layer : layers) layer->forward(x).backward(g);
        exact.add_(g.t().mm(x));
    }
    const auto result = sink.result({low->weight, high->weight, head->weight});
    // BF16 makes no noise that counts, and the head is no candidate.
    ASSERT_EQ(result.size(), 1u);
    EXPECT_EQ(result[0].layer, "low");
    const double noise = low->weight.grad().sub(exact).norm().item<double>();
    const double gradient = exact.norm().item<double>();
    EXPECT_NEAR(result[0].noise, noise, 1e-4 * noise);
    EXPECT_NEAR(result[0].gradient, gradient, 1e-4 * gradient);
    EXPECT_GT(noise, 0.01 * gradient);
    // The other observer has seen everything too.
    const auto seen = next.statistics();
    EXPECT_EQ(seen[0].t, 96);
    EXPECT_EQ(seen[1].t, 96);
    sink.reset();
    EXPECT_TRUE(sink.result({low->weight, high->weight, head->weight}).empty());
}

}  // namespace
}  // namespace subbyte::snip
