// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The quantised linear op: against finite differences with the quantisers replaced by identity, and
// against LibTorch's own autograd on the dequantised operands with the quantisers on.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "subbyte/core/error.h"
#include "subbyte/ops/linear.h"
#include "subbyte/ops/noise_role.h"
#include "subbyte/ops/reduce.h"

namespace subbyte::ops {
namespace {

using plan::Slot;

LinearContext context_of(const std::string& recipe) {
    LinearContext context;
    context.recipe = std::make_shared<const plan::Recipe>(plan::find_recipe(recipe));
    context.seed = 7;
    context.step = 3;
    context.layer = 5;
    return context;
}

// What the operand of a slot is after quantisation, from the definition of the op.
at::Tensor operand(const at::Tensor& x, const LinearContext& c, Slot slot, Operand which) {
    const plan::SlotRecipe& recipe = (*c.recipe)[slot];
    const bool weight = which == Operand::kB && slot != Slot::kWgrad;
    return fake_quantize(
        x.contiguous(), which == Operand::kA ? recipe.a : recipe.b,
        {c.seed, c.step, c.layer, noise_role(slot, which, weight ? 0 : c.micro_batch)});
}

TEST(LinearGradient, MatchesFiniteDifferencesInFp32) {
    at::manual_seed(1);
    const LinearContext context = context_of("fp32");
    at::Tensor x = at::randn({2, 3, 5}).requires_grad_(true);
    at::Tensor w = at::randn({4, 5}).requires_grad_(true);
    const at::Tensor g = at::randn({2, 3, 4});
    linear(x, w, context).mul(g).sum().backward();
    // The op is bilinear, so a central difference is exact up to rounding.
    const auto loss = [&](const at::Tensor& a, const at::Tensor& b) {
        at::NoGradGuard no_grad;
        return linear(a, b, context).mul(g).to(at::kDouble).sum().item<double>();
    };
    const float step = 0.5f;
    for (at::Tensor* t : {&x, &w}) {
        for (std::int64_t i = 0; i < t->numel(); ++i) {
            at::Tensor up = t->detach().clone(), down = t->detach().clone();
            up.view(-1)[i] += step;
            down.view(-1)[i] -= step;
            const double difference =
                (t == &x ? loss(up, w) - loss(down, w) : loss(x, up) - loss(x, down)) / (2 * step);
            EXPECT_NEAR(t->grad().view(-1)[i].item<double>(), difference, 2e-5) << i;
        }
    }
}

class LinearRecipe : public ::testing::TestWithParam<std::string> {};

// Forward and both gradients equal three plain matmuls of operands that were each quantised along
// the contraction axis of their GEMM from the high-precision source.
TEST_P(LinearRecipe, EqualsThreeGemmsOfQuantisedOperands) {
    at::manual_seed(2);
    const LinearContext context = context_of(GetParam());
    at::Tensor x = at::randn({7, 19, 130}).requires_grad_(true);
    at::Tensor w = at::randn({150, 130}).mul(0.1).requires_grad_(true);
    const at::Tensor g = at::randn({7, 19, 150});
    const at::Tensor y = linear(x, w, context);
    y.backward(g);

    const at::Tensor x2 = x.detach().reshape({-1, 130}), g2 = g.reshape({-1, 150}), wd = w.detach();
    const at::Tensor fprop = at::mm(operand(x2, context, Slot::kFprop, Operand::kA),
                                    operand(wd, context, Slot::kFprop, Operand::kB).t());
    const at::Tensor dgrad = at::mm(operand(g2, context, Slot::kDgrad, Operand::kA),
                                    operand(wd.t(), context, Slot::kDgrad, Operand::kB).t());
    const at::Tensor wgrad = at::mm(operand(g2.t(), context, Slot::kWgrad, Operand::kA),
                                    operand(x2.t(), context, Slot::kWgrad, Operand::kB).t());
    // BF16 results are rounded to BF16 by LibTorch's kernel: 2^-8 relative; the others accumulate
    // in FP32.
    const double tolerance = GetParam() == "bf16" ? 5e-3 : 2e-6;
    EXPECT_LT(difference_norm(y.detach().reshape({-1, 150}), fprop), tolerance * ops::norm(fprop));
    EXPECT_LT(difference_norm(x.grad().reshape({-1, 130}), dgrad), tolerance * ops::norm(dgrad));
    EXPECT_LT(difference_norm(w.grad(), wgrad), tolerance * ops::norm(wgrad));
}

INSTANTIATE_TEST_SUITE_P(AllRecipes, LinearRecipe, ::testing::ValuesIn(plan::recipe_names()),
                         [](const auto& test) { return test.param; });

TEST(LinearGradient, RefusesWrongShapesAndDtypes) {
    const LinearContext context = context_of("fp8");
    EXPECT_THROW(linear(at::randn({3, 4}), at::randn({5, 6}), context), Error);
    EXPECT_THROW(linear(at::randn({3, 4}), at::randn({4}), context), Error);
    EXPECT_THROW(linear(at::randn({3, 4}).to(at::kDouble), at::randn({5, 4}), context), Error);
}

TEST(LinearGradient, NoticesAWeightThatChangedBeforeBackward) {
    const LinearContext context = context_of("fp8");
    at::Tensor x = at::randn({3, 4}).requires_grad_(true);
    at::Tensor w = at::randn({5, 4}).requires_grad_(true);
    const at::Tensor y = linear(x, w, context);
    {
        at::NoGradGuard no_grad;
        w.mul_(2);
    }
    EXPECT_THROW(y.sum().backward(), std::exception);
}

TEST(LinearGradient, ZeroTokensAndZeroWeightGiveZeros) {
    for (const std::string& recipe : plan::recipe_names()) {
        const LinearContext context = context_of(recipe);
        at::Tensor x = at::randn({0, 8}).requires_grad_(true);
        at::Tensor w = at::zeros({6, 8}).requires_grad_(true);
        const at::Tensor y = linear(x, w, context);
        EXPECT_EQ(y.sizes(), (std::vector<std::int64_t>{0, 6}));
        y.sum().backward();
        EXPECT_EQ(w.grad().abs().sum().item<float>(), 0.0f) << recipe;

        at::Tensor some = at::randn({3, 8}).requires_grad_(true);
        const at::Tensor z = linear(some, w, context);
        EXPECT_EQ(z.abs().sum().item<float>(), 0.0f) << recipe;
        z.backward(at::zeros({3, 6}));  // an all-zero output gradient
        EXPECT_EQ(some.grad().abs().sum().item<float>(), 0.0f) << recipe;
        EXPECT_TRUE(all_finite(w.grad())) << recipe;
    }
}

}  // namespace
}  // namespace subbyte::ops
