// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Own ops against LibTorch's autograd of the formula written out in float64, and against finite
// differences.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <functional>

#include "subbyte/models/llama.h"
#include "subbyte/nn/attach.h"
#include "subbyte/nn/init.h"
#include "subbyte/ops/attention.h"
#include "subbyte/ops/loss.h"
#include "subbyte/ops/reduce.h"
#include "subbyte/ops/rms_norm.h"
#include "subbyte/ops/rope.h"

namespace subbyte {
namespace {

double relative(const at::Tensor& a, const at::Tensor& b) {
    return ops::difference_norm(a.to(at::kDouble), b.to(at::kDouble)) /
           ops::norm(b.to(at::kDouble));
}

TEST(OpsGradient, RmsNormMatchesTheFormulaInFloat64) {
    at::manual_seed(1);
    const at::Tensor g = at::randn({3, 70, 37});
    for (const auto& [keep, bound] :
         {std::pair{ops::Keep::kFp32, 1e-6}, {ops::Keep::kBf16, 1e-6}, {ops::Keep::kInt8, 1e-2}}) {
        at::Tensor x = at::randn({3, 70, 37}).requires_grad_(true);
        at::Tensor w = at::randn({37}).requires_grad_(true);
        const at::Tensor y = ops::rms_norm(x, w, 1e-5, keep);
        y.backward(g);

        at::Tensor x64 = x.detach().to(at::kDouble).requires_grad_(true);
        at::Tensor w64 = w.detach().to(at::kDouble).requires_grad_(true);
        const at::Tensor y64 = x64 * at::rsqrt(x64.pow(2).mean(-1, true) + 1e-5) * w64;
        y64.backward(g.to(at::kDouble));
        EXPECT_LT(relative(y.detach(), y64.detach()), 1e-6);
        EXPECT_LT(relative(x.grad(), x64.grad()), bound);
        EXPECT_LT(relative(w.grad(), w64.grad()), bound);
    }
}

TEST(OpsGradient, RopeMatchesTheFormulaInFloat64) {
    at::manual_seed(2);
    const std::int64_t tokens = 33, dim = 10, half = dim / 2;
    at::Tensor x = at::randn({2, tokens, 3, dim}).requires_grad_(true);
    const at::Tensor g = at::randn({2, tokens, 3, dim});
    const at::Tensor y = ops::rope(x, 10000.0);
    y.backward(g);

    at::Tensor x64 = x.detach().to(at::kDouble).requires_grad_(true);
    const at::Tensor inv = at::pow(10000.0, at::arange(half, at::kDouble) * (-2.0 / dim));
    const at::Tensor angle = at::arange(tokens, at::kDouble).view({1, tokens, 1, 1}) * inv;
    const at::Tensor low = x64.narrow(3, 0, half), high = x64.narrow(3, half, half);
    const at::Tensor y64 = at::cat(
        {low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()}, 3);
    y64.backward(g.to(at::kDouble));
    EXPECT_LT(relative(y.detach(), y64.detach()), 2e-6);
    EXPECT_LT(relative(x.grad(), x64.grad()), 2e-6);
}

void check_attention(bool compact, double bound, double gradient_bound, std::int64_t tokens = 17,
                     std::int64_t dim = 8) {
    at::manual_seed(3);
    const std::int64_t heads = 6, groups = 2;
    std::vector<at::Tensor> in{at::randn({2, tokens, heads, dim}),
                               at::randn({2, tokens, groups, dim}),
                               at::randn({2, tokens, groups, dim})};
    const at::Tensor g = at::randn({2, tokens, heads, dim});
    std::vector<at::Tensor> in64;
    for (at::Tensor& t : in) {
        t.requires_grad_(true);
        in64.push_back(t.detach().to(at::kDouble).requires_grad_(true));
    }
    const at::Tensor y = ops::causal_attention(in[0], in[1], in[2], compact);
    y.backward(g);

    const at::Tensor q = in64[0].transpose(1, 2);
    const at::Tensor k = in64[1].transpose(1, 2).repeat_interleave(heads / groups, 1);
    const at::Tensor v = in64[2].transpose(1, 2).repeat_interleave(heads / groups, 1);
    const at::Tensor mask = at::full({tokens, tokens}, -INFINITY, at::kDouble).triu(1);
    const at::Tensor p =
        at::softmax(q.matmul(k.transpose(2, 3)) / std::sqrt(double(dim)) + mask, -1);
    const at::Tensor y64 = p.matmul(v).transpose(1, 2);
    y64.backward(g.to(at::kDouble));
    EXPECT_LT(relative(y.detach(), y64.detach()), bound);
    for (std::size_t i = 0; i < in.size(); ++i) {
        // Of a single token q and k have no gradient.
        EXPECT_LT(ops::difference_norm(in[i].grad().to(at::kDouble), in64[i].grad()),
                  gradient_bound * ops::norm(in64[i].grad()) + 1e-5);
    }
}

TEST(OpsGradient, GroupedAttentionMatchesTheFormulaInFloat64) {
    check_attention(/*compact=*/false, 2e-6, 5e-6);
}

// BF16 keeps eight bits of q, k, v, the probabilities and the result.
TEST(OpsGradient, CompactAttentionIsWithinTheRoundingOfBf16) {
    check_attention(/*compact=*/true, 6e-3, 1.2e-2);
}

// One token; parts of panels in every direction; several blocks of queries; long rows of a head.
TEST(OpsGradient, CompactAttentionOfAllSizes) {
    for (const std::int64_t tokens : {1, 2, 6, 31, 128, 133, 300}) {
        for (const std::int64_t dim : {1, 8, 33, 64, 130}) {
            SCOPED_TRACE(::testing::Message() << tokens << " tokens, heads of " << dim);
            check_attention(/*compact=*/true, 6e-3, 1.6e-2, tokens, dim);
        }
    }
}

TEST(OpsGradient, CompactAttentionGivesTheSameBitsForAnyNumberOfThreads) {
    at::manual_seed(4);
    const at::Tensor x = at::randn({3, 3, 140, 5, 32}), g = at::randn({3, 140, 5, 32});
    std::vector<at::Tensor> expected;
    const int before = at::get_num_threads();
    for (const int threads : {1, 2, 3}) {
        at::set_num_threads(threads);
        std::vector<at::Tensor> in;
        for (int i = 0; i < 3; ++i) in.push_back(x[i].clone().requires_grad_(true));
        const at::Tensor y = ops::causal_attention(in[0], in[1], in[2], /*compact=*/true);
        y.backward(g);
        const std::vector<at::Tensor> now{y.detach(), in[0].grad(), in[1].grad(), in[2].grad()};
        if (expected.empty()) expected = now;
        for (std::size_t i = 0; i < now.size(); ++i) EXPECT_TRUE(at::equal(now[i], expected[i]));
    }
    at::set_num_threads(before);
}

TEST(OpsGradient, CrossEntropySumsOnlyCountedTargets) {
    at::Tensor logits = at::randn({2, 3, 11}).requires_grad_(true);
    const at::Tensor labels = at::tensor({1, -100, 10, 0, -100, 5}, at::kLong).view({2, 3});
    const ops::SummedLoss loss = ops::cross_entropy(logits, labels);
    EXPECT_EQ(loss.count, 4);
    const at::Tensor logp = at::log_softmax(logits.detach().to(at::kDouble), -1).view({6, 11});
    double expected = 0;
    for (std::int64_t i = 0; i < 6; ++i) {
        const std::int64_t label = labels.view(-1)[i].item<std::int64_t>();
        if (label >= 0) expected -= logp[i][label].item<double>();
    }
    EXPECT_NEAR(loss.sum.item<double>(), expected, 1e-5);
}

// The whole model, every kind of layer at once, against central differences along random
// directions.
TEST(OpsGradient, LlamaMatchesFiniteDifferences) {
    models::LlamaConfig config;
    config.vocab_size = 50;
    config.hidden_size = 24;
    config.intermediate_size = 40;
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = 2;
    models::Llama model(config);
    nn::initialize(*model, 11, 0.3);
    at::manual_seed(5);
    const at::Tensor ids = at::randint(50, {2, 9}, at::kLong);
    const at::Tensor targets = at::randint(50, {2, 9}, at::kLong);
    model->loss(ids, targets).sum.backward();
    const auto loss = [&] {
        at::NoGradGuard no_grad;
        return model->loss(ids, targets).sum.item<double>();
    };
    for (const auto& item : model->named_parameters()) {
        at::Tensor p = item.value();
        const at::Tensor direction = at::randn_like(p).mul(1.0 / std::sqrt(double(p.numel())));
        const double slope = ops::dot(p.grad(), direction);
        const float step = 2e-2f;
        at::NoGradGuard no_grad;
        p.add_(direction, step);
        const double up = loss();
        p.add_(direction, -2 * step);
        const double down = loss();
        p.add_(direction, step);
        EXPECT_NEAR((up - down) / (2 * step), slope, 2e-2 * std::max(1.0, std::fabs(slope)))
            << item.key();
    }
}

}  // namespace
}  // namespace subbyte
