// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The head and its loss in groups of rows: against the two ops one after the other, and against
// finite differences. SwiGLU against its formula in float64.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "subbyte/core/error.h"
#include "subbyte/ops/linear_loss.h"
#include "subbyte/ops/reduce.h"
#include "subbyte/ops/swiglu.h"

namespace subbyte::ops {
namespace {

LinearContext context_of(const plan::Recipe& recipe) {
    LinearContext context;
    context.recipe = std::make_shared<const plan::Recipe>(recipe);
    context.seed = 7;
    return context;
}

LinearContext context_of(const std::string& recipe) {
    return context_of(plan::find_recipe(recipe));
}

// The recipe with nearest-even in place of stochastic rounding: its groups then see the numbers
// that the whole sees.
plan::Recipe without_noise(plan::Recipe recipe) {
    for (plan::SlotRecipe& slot : recipe.slots) {
        for (formats::QuantSpec* spec : {&slot.a, &slot.b}) {
            spec->rounding = formats::Rounding::kNearestEven;
        }
    }
    return recipe;
}

double relative(const at::Tensor& a, const at::Tensor& b) {
    return difference_norm(a.contiguous(), b.contiguous()) / ops::norm(b.contiguous());
}

struct Outcome {
    double loss;
    std::int64_t count;
    at::Tensor dx, dw;
};

template <typename Loss>
Outcome outcome(const at::Tensor& x, const at::Tensor& w, double factor, Loss loss) {
    at::Tensor a = x.clone().requires_grad_(true), b = w.clone().requires_grad_(true);
    const SummedLoss result = loss(a, b);
    result.sum.mul(factor).backward();
    return {result.sum.item<double>(), result.count, a.grad(), b.grad()};
}

class LinearLoss : public testing::TestWithParam<std::string> {};

// A vocabulary so large that the rows fall into three groups, the last one ragged.
TEST_P(LinearLoss, EqualsLinearThenCrossEntropy) {
    at::manual_seed(1);
    const std::int64_t vocabulary = 70001, rows = 2 * 128 + 41;
    ASSERT_EQ(loss_group_rows(vocabulary), 128);
    const LinearContext context = context_of(without_noise(plan::find_recipe(GetParam())));
    const at::Tensor x = at::randn({1, rows, 24}), w = at::randn({vocabulary, 24});
    at::Tensor labels = at::randint(vocabulary, {1, rows}, at::kLong);
    labels[0].narrow(0, 100, 40).fill_(kIgnoredLabel);
    const double factor = 1.0 / 256;
    const Outcome apart = outcome(x, w, factor, [&](const at::Tensor& a, const at::Tensor& b) {
        return cross_entropy(linear(a, b, context), labels);
    });
    const Outcome joined = outcome(x, w, factor, [&](const at::Tensor& a, const at::Tensor& b) {
        return linear_cross_entropy(a, b, labels, context);
    });
    EXPECT_EQ(joined.count, rows - 40);
    EXPECT_NEAR(joined.loss / apart.loss, 1.0, 1e-6);
    EXPECT_LT(relative(joined.dx, apart.dx), 2e-3);
    EXPECT_LT(relative(joined.dw, apart.dw), 2e-3);
    EXPECT_GT(ops::norm(joined.dx), 0.0);
    EXPECT_EQ(ops::norm(joined.dx[0].narrow(0, 100, 28).contiguous()), 0.0);
}

// Stochastic rounding draws other numbers in a group than in the whole: what is left of the
// difference in the mean over many seeds is noise, and falls like one over their root.
TEST(LinearLossNoise, HasTheSameMean) {
    at::manual_seed(5);
    const std::int64_t vocabulary = 70001, rows = 128 + 32;
    const int draws = 16;
    LinearContext context = context_of("fp4");
    const at::Tensor x = at::randn({rows, 16}), w = at::randn({vocabulary, 16});
    const at::Tensor labels = at::randint(vocabulary, {rows}, at::kLong);
    at::Tensor sum = at::zeros_like(x), once, other;
    for (int draw = 0; draw < draws; ++draw) {
        context.seed = static_cast<std::uint64_t>(draw);
        const at::Tensor joined = outcome(x, w, 1.0, [&](const at::Tensor& a, const at::Tensor& b) {
                                      return linear_cross_entropy(a, b, labels, context);
                                  }).dx;
        const at::Tensor apart = outcome(x, w, 1.0, [&](const at::Tensor& a, const at::Tensor& b) {
                                     return cross_entropy(linear(a, b, context), labels);
                                 }).dx;
        sum += joined - apart;
        if (draw == 0) once = (joined - apart).clone();
    }
    const double noise = ops::norm(once), left = ops::norm(sum / draws);
    EXPECT_GT(noise, 0.0);
    EXPECT_LT(left, 1.3 * noise / std::sqrt(double(draws)));
}

INSTANTIATE_TEST_SUITE_P(Recipes, LinearLoss, testing::Values("fp32", "bf16", "fp8", "int8", "fp4"),
                         [](const auto& recipe) { return recipe.param; });

TEST(LinearLossGradient, MatchesFiniteDifferences) {
    at::manual_seed(2);
    const LinearContext context = context_of("fp32");
    const at::Tensor x = at::randn({5, 4}), w = at::randn({7, 4});
    const at::Tensor labels = at::randint(7, {5}, at::kLong);
    const auto loss = [&](const at::Tensor& a, const at::Tensor& b) {
        return linear_cross_entropy(a, b, labels, context);
    };
    const Outcome exact = outcome(x, w, 1.0, loss);
    const double step = 1e-2;
    const auto check = [&](const at::Tensor& source, const at::Tensor& gradient, bool of_x) {
        for (std::int64_t i = 0; i < source.numel(); ++i) {
            at::Tensor up = source.clone(), down = source.clone();
            up.view(-1)[i] += step;
            down.view(-1)[i] -= step;
            const double difference =
                of_x ? loss(up, w).sum.item<double>() - loss(down, w).sum.item<double>()
                     : loss(x, up).sum.item<double>() - loss(x, down).sum.item<double>();
            EXPECT_NEAR(gradient.view(-1)[i].item<double>(), difference / (2 * step), 2e-3) << i;
        }
    };
    check(x, exact.dx, true);
    check(w, exact.dw, false);
}

TEST(LinearLossGradient, MicroBatchesOfATiedWeightAddUp) {
    at::manual_seed(3);
    const LinearContext context = context_of("bf16");
    const at::Tensor labels = at::randint(11, {6}, at::kLong);
    at::Tensor w = at::randn({11, 4}).requires_grad_(true);
    const at::Tensor ids = at::randint(11, {6}, at::kLong);
    const auto run = [&] {
        linear_cross_entropy(at::embedding(w, ids), w, labels, context).sum.backward();
    };
    run();
    const at::Tensor once = w.grad().clone();
    run();
    EXPECT_TRUE(at::allclose(w.grad(), once * 2));
}

// A graph that is kept gives the same gradients every time; then it is used up.
TEST(LinearLossGradient, KeptGraphCanBeGoneThroughAgain) {
    at::manual_seed(4);
    const LinearContext context = context_of("bf16");
    const at::Tensor x = at::randn({6, 4}).requires_grad_(true);
    const at::Tensor w = at::randn({11, 4}).requires_grad_(true);
    const at::Tensor labels = at::randint(11, {6}, at::kLong);
    const at::Tensor loss = linear_cross_entropy(x, w, labels, context).sum.mul(0.25);
    std::vector<at::Tensor> dx, dw;
    for (const bool keep : {true, true, false}) {
        loss.backward({}, keep);
        dx.push_back(std::exchange(x.mutable_grad(), at::Tensor()));
        dw.push_back(std::exchange(w.mutable_grad(), at::Tensor()));
    }
    for (int i = 1; i < 3; ++i) {
        EXPECT_TRUE(at::equal(dx[i], dx[0])) << i;
        EXPECT_TRUE(at::equal(dw[i], dw[0])) << i;
    }
    EXPECT_THROW(loss.backward(), Error);
}

TEST(LinearLossGradient, WithoutGradientsThereIsOnlyTheLoss) {
    at::NoGradGuard no_grad;
    const LinearContext context = context_of("fp32");
    const at::Tensor x = at::randn({5, 4}).requires_grad_(true), w = at::randn({7, 4});
    const SummedLoss loss = linear_cross_entropy(x, w, at::full({5}, kIgnoredLabel), context);
    EXPECT_EQ(loss.count, 0);
    EXPECT_EQ(loss.sum.item<double>(), 0.0);
    EXPECT_FALSE(loss.sum.requires_grad());
}

TEST(LinearLossGradient, MistakesAreErrors) {
    const LinearContext context = context_of("fp32");
    const at::Tensor x = at::randn({5, 4}).requires_grad_(true), w = at::randn({7, 4});
    const auto labels = [](std::int64_t count, std::int64_t value) {
        return at::full({count}, value, at::kLong);
    };
    EXPECT_THROW(linear_cross_entropy(x, w, labels(4, 0), context), Error);
    EXPECT_THROW(linear_cross_entropy(x, w, labels(5, 7), context), Error);
    EXPECT_THROW(linear_cross_entropy(x, w, labels(5, -1), context), Error);
    EXPECT_THROW(linear_cross_entropy(x, at::randn({7, 3}), labels(5, 0), context), Error);
    const SummedLoss loss = linear_cross_entropy(x, w, labels(5, 0), context);
    loss.sum.backward();
    EXPECT_THROW(loss.sum.backward(), Error);
}

TEST(SwigluGradient, MatchesTheFormulaInFloat64) {
    at::manual_seed(4);
    const at::Tensor g = at::randn({3, 37});
    // BF16 keeps eight bits; INT8 a 254th of the range of a row.
    for (const auto& [keep, bound] :
         {std::pair{Keep::kFp32, 1e-6}, {Keep::kBf16, 4e-3}, {Keep::kInt8, 1e-2}}) {
        at::Tensor a = at::randn({3, 37}).requires_grad_(true);
        at::Tensor b = at::randn({3, 37}).requires_grad_(true);
        const at::Tensor y = swiglu(a, b, keep);
        y.backward(g);
        at::Tensor a64 = a.detach().to(at::kDouble).requires_grad_(true);
        at::Tensor b64 = b.detach().to(at::kDouble).requires_grad_(true);
        const at::Tensor y64 = at::silu(a64) * b64;
        y64.backward(g.to(at::kDouble));
        EXPECT_LT(relative(y.detach().to(at::kDouble), y64.detach()), 1e-6);
        EXPECT_LT(relative(a.grad().to(at::kDouble), a64.grad()), bound);
        EXPECT_LT(relative(b.grad().to(at::kDouble), b64.grad()), bound);
    }
    EXPECT_EQ(keep_of("auto"), std::nullopt);
    EXPECT_EQ(keep_of("int8"), Keep::kInt8);
    EXPECT_THROW(keep_of("int4"), Error);
}

}  // namespace
}  // namespace subbyte::ops
