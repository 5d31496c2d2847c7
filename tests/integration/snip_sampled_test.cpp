// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Labels drawn from the model, and the Fisher matrix that they stand for.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "subbyte/nn/attach.h"
#include "subbyte/nn/linear.h"
#include "subbyte/ops/loss.h"
#include "subbyte/ops/quantized_tensor.h"
#include "subbyte/ops/sample_labels.h"
#include "subbyte/optim/adamw.h"
#include "subbyte/snip/sampled_outputs.h"

namespace subbyte::snip {
namespace {

TEST(SampledLabels, AreDrawnFromTheSoftmax) {
    const at::Tensor row = at::tensor({0.0f, 1.5f, -2.0f, 0.7f, -30.0f});
    const std::int64_t rows = 40000;
    const at::Tensor logits = row.expand({rows, 5}).contiguous();
    const at::Tensor labels = ops::sample_labels(logits, {.seed = 4});
    const at::Tensor p = row.to(at::kDouble).softmax(0);
    for (std::int64_t v = 0; v < 5; ++v) {
        const double expected = p[v].item<double>();
        const double found = labels.eq(v).sum().item<double>() / double(rows);
        EXPECT_NEAR(found, expected, 4 * std::sqrt(expected / double(rows)) + 1e-12) << v;
    }
    // The address and the row alone say which number is drawn.
    EXPECT_TRUE(ops::sample_labels(logits, {.seed = 4}).equal(labels));
    EXPECT_TRUE(
        ops::sample_labels(logits.narrow(0, 0, 77), {.seed = 4}).equal(labels.narrow(0, 0, 77)));
    EXPECT_FALSE(ops::sample_labels(logits, {.seed = 5}).equal(labels));
    EXPECT_FALSE(ops::sample_labels(logits, {.seed = 4, .step = 1}).equal(labels));
    EXPECT_EQ(ops::sample_labels(logits.view({40, 1000, 5}), {.seed = 4}).sizes(),
              (std::vector<std::int64_t>{40, 1000}));
}

// For softmax regression the mean over labels is known: with p = softmax(Y) the gradient of token t
// is (p - e_label) / T, so E <G_t, E_t>^2 = (sum p E^2 - (sum p E)^2) / T^2.
TEST(SampledOutputs, AreTheFisherMatrixInTheMean) {
    at::set_num_threads(1);  // more would only wait for each other
    constexpr std::int64_t kTokens = 24, kIn = 16, kClasses = 6;
    at::manual_seed(2);
    nn::Linear layer(kIn, kClasses);
    {
        at::NoGradGuard no_grad;
        layer->weight.copy_(at::randn({kClasses, kIn}).mul(0.4));
    }
    const auto root = std::make_shared<torch::nn::Module>();
    root->register_module("fc", layer.ptr());
    const auto precision = nn::attach_precision(*root, {});
    precision->set_plan(plan::uniform_plan(precision->table(), "fp8"));
    const optim::AdamW optimizer(optim::parameters_of(*root), {});
    const at::Tensor x = at::randn({kTokens, kIn});
    const plan::SlotRecipe& slot = plan::find_recipe("fp4")[plan::Slot::kFprop];
    const at::Tensor w = layer->weight.detach(), y = x.mm(w.t());
    const at::Tensor error =
        ops::fake_quantize(x, slot.a).mm(ops::fake_quantize(w, slot.b).t()).sub(y).to(at::kDouble);
    const at::Tensor p = y.to(at::kDouble).softmax(1);
    const double expected =
        ((p * error.pow(2)).sum(1) - (p * error).sum(1).pow(2)).sum().item<double>() /
        double(kTokens * kTokens);

    plan::ModelStatistics statistics;
    statistics.table = precision->table();
    statistics.layers.resize(1);
    statistics.layers[0].t = 4 * kTokens;  // the step had more tokens than the batch
    double sum = 0;
    constexpr int kDraws = 400;
    for (std::uint32_t draw = 0; draw < kDraws; ++draw) {
        const auto loss = [&] {
            const at::Tensor logits = layer->forward(x);
            const at::Tensor labels = ops::sample_labels(logits, {.seed = 1, .step = draw});
            return ops::cross_entropy(logits, labels).sum.div(double(kTokens));
        };
        measure_sampled_outputs(loss, *precision, optimizer, {"fp8", "fp4"},
                                plan::uniform_plan(precision->table(), "fp32"), statistics);
        sum += statistics.layers[0].errors.at("fp4").output->tokens * 4;
    }
    EXPECT_NEAR(sum / kDraws / expected, 1, 0.05);
    EXPECT_NEAR(statistics.layers[0].errors.at("fp4").output->squared /
                    (4 * error.pow(2).sum().item<double>()),
                1, 1e-4);
    // Nothing of it remains.
    EXPECT_FALSE(layer->weight.grad().defined());
    EXPECT_EQ(precision->recipe(0)->name, "fp8");
    EXPECT_EQ(precision->observer, nullptr);
}

}  // namespace
}  // namespace subbyte::snip
