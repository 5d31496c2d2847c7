// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// A LLaMA whose blocks are computed again in backward gives the same bits as one that keeps
// everything, and observers see the same.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "subbyte/core/error.h"
#include "subbyte/nn/recompute.h"
#include "subbyte/snip/noise_probe.h"
#include "subbyte/snip/statistics_sink.h"
#include "tests/small_llama.h"

namespace subbyte {
namespace {

struct Fixture : SmallLlama {
    explicit Fixture(const std::string& recipe) : SmallLlama(3, recipe) { precision->seed = 11; }

    // Loss and all gradients.
    std::vector<at::Tensor> run(bool recompute) {
        model->recompute_blocks = recompute;
        model->zero_grad();
        const ops::SummedLoss loss = model->loss(ids, targets);
        loss.sum.backward();
        std::vector<at::Tensor> result{loss.sum.detach().clone()};
        for (const at::Tensor& p : model->parameters()) result.push_back(p.grad().clone());
        return result;
    }
};

class Recompute : public testing::TestWithParam<std::string> {};

TEST_P(Recompute, SameBitsAsKeepingEverything) {
    Fixture f(GetParam());
    const auto kept = f.run(false), again = f.run(true);
    ASSERT_EQ(kept.size(), again.size());
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], again[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Recipes, Recompute, testing::Values("fp32", "bf16", "fp8", "fp4", "nvfp4"),
                         [](const auto& recipe) { return recipe.param; });

TEST(RecomputeObservers, StatisticsSeeEachLayerOnce) {
    Fixture f("bf16");
    std::vector<std::vector<plan::LayerStatistics>> seen;
    for (const bool recompute : {false, true}) {
        snip::StatisticsSink sink(f.precision->table(), {"fp8", "fp4"},
                                  {.first_order = true, .outputs = true, .outer = true});
        f.precision->observer = &sink;
        f.run(recompute);
        f.precision->observer = nullptr;
        seen.push_back(sink.statistics());
    }
    for (std::size_t i = 0; i < seen[0].size(); ++i) {
        EXPECT_EQ(seen[0][i].t, seen[1][i].t) << i;
        EXPECT_EQ(seen[0][i].x, seen[1][i].x) << i;
        EXPECT_EQ(seen[0][i].g, seen[1][i].g) << i;
        EXPECT_EQ(seen[0][i].errors.at("fp4").first_order, seen[1][i].errors.at("fp4").first_order);
        EXPECT_EQ(seen[0][i].errors.at("fp4").output->tokens > 0,
                  f.precision->table()[i].candidate);
        EXPECT_EQ(seen[0][i].errors.at("fp4").output->tokens,
                  seen[1][i].errors.at("fp4").output->tokens);
    }
}

TEST(RecomputeObservers, NoiseIsTheSameBothTimes) {
    // Adds a fixed disturbance to the outputs of one layer.
    struct Disturber : ops::LinearObserver {
        void on_forward(std::uint32_t layer, const at::Tensor&, const at::Tensor&,
                        at::Tensor& y) override {
            if (layer == 8) y.add_(0.25);
            ++passes;
        }
        void on_discarded_forward(std::uint32_t layer, const at::Tensor& x, const at::Tensor& w,
                                  at::Tensor& y) override {
            on_forward(layer, x, w, y);
        }
        void on_backward(std::uint32_t, const at::Tensor&, at::Tensor&,
                         const at::Tensor&) override {}
        int passes = 0;
    };
    Fixture f("bf16");
    const auto plain = f.run(false);
    Disturber once, twice;
    f.precision->observer = &once;
    const auto kept = f.run(false);
    f.precision->observer = &twice;
    const auto again = f.run(true);
    f.precision->observer = nullptr;
    EXPECT_EQ(twice.passes, 2 * once.passes);
    EXPECT_FALSE(at::equal(plain[0], kept[0]));
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], again[i])) << i;
}

TEST(RecomputeOp, SecondBackwardIsAnError) {
    const at::Tensor x = at::ones({3}).requires_grad_(true);
    const at::Tensor y =
        nn::recompute([](const at::Tensor& t) { return t.mul(t); }, x, nullptr).sum();
    y.backward();
    EXPECT_TRUE(at::equal(x.grad(), at::full({3}, 2.0)));
    EXPECT_THROW(y.backward(), std::exception);
}

TEST(RecomputeOp, WithoutGradientsTheBodyJustRuns) {
    at::NoGradGuard no_grad;
    int runs = 0;
    const auto body = [&](const at::Tensor& t) {
        ++runs;
        return t.add(1);
    };
    const at::Tensor y = nn::recompute(body, at::zeros({2}), nullptr);
    EXPECT_EQ(runs, 1);
    EXPECT_FALSE(y.requires_grad());
}

}  // namespace
}  // namespace subbyte
