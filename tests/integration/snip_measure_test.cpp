// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// What a measuring iteration writes down, against the same numbers computed another way.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "subbyte/core/error.h"
#include "subbyte/ops/quantized_tensor.h"
#include "subbyte/optim/adamw.h"
#include "subbyte/plan/statistics_check.h"
#include "subbyte/snip/measure.h"
#include "subbyte/snip/realised.h"
#include "tests/small_llama.h"

namespace subbyte::snip {
namespace {

const plan::LayerTable kOneLayer(1);
constexpr plan::Needs kEverything{
    .first_order = true, .outputs = true, .outer = true, .curvature = true};

struct LlamaFixture : SmallLlama {
    LlamaFixture()
        : SmallLlama(2),
          optimizer(std::make_unique<optim::AdamW>(optim::parameters_of(*model),
                                                   optim::AdamWOptions{.lr = 1e-2})),
          weights(nn::layer_weights(*model, *precision)) {}

    at::Tensor loss() {
        const ops::SummedLoss part = model->loss(ids, targets);
        return part.sum.div(double(part.count));
    }

    Measurement measure_step(Probes probes) {
        StatisticsSink sink(precision->table(), {"fp8", "fp4"}, kEverything);
        precision->observer = &sink;
        const at::Tensor value = loss();
        value.backward();
        precision->observer = nullptr;
        return measure(sink, *precision, weights, *optimizer,
                       {.step = 7,
                        .loss = value.item<double>(),
                        .replay = [this] { return loss(); },
                        .probe = {.probes = probes, .curvature = true},
                        .high = "fp32"});
    }

    void train(int steps) {
        for (int step = 0; step < steps; ++step) {
            loss().backward();
            optimizer->step();
            optimizer->zero_grad();
        }
    }

    std::unique_ptr<optim::AdamW> optimizer;
    std::vector<at::Tensor> weights;
};

// Blocks that are computed again in backward put gradients where nobody asked for them: the probes
// must see them all the same, and leave those of the step alone.
TEST(Measure, ProbesLeaveNoTraceAndSeeRecomputedBlocks) {
    std::vector<plan::ModelStatistics> seen;
    for (const bool recompute : {false, true}) {
        LlamaFixture f;
        f.model->recompute_blocks = recompute;
        f.loss().backward();
        std::vector<at::Tensor> expected;
        for (const at::Tensor& p : f.model->parameters()) expected.push_back(p.grad().clone());
        f.optimizer->zero_grad();
        const Measurement m = f.measure_step(Probes::kLayer);
        EXPECT_EQ(m.probe_passes, 1 + 3 * 14);
        std::size_t i = 0;
        for (const at::Tensor& p : f.model->parameters()) {
            EXPECT_TRUE(at::equal(p.grad(), expected[i++])) << recompute << " " << i;
        }
        EXPECT_EQ(f.precision->observer, nullptr);
        seen.push_back(m.statistics);
    }
    for (std::size_t l = 0; l + 1 < seen[0].layers.size(); ++l) {
        const plan::LayerStatistics &kept = seen[0].layers[l], &again = seen[1].layers[l];
        EXPECT_EQ(kept.forward, again.forward) << l;
        EXPECT_EQ(kept.backward, again.backward) << l;
        EXPECT_EQ(kept.curvature, again.curvature) << l;
        EXPECT_GT(kept.forward[l], 0) << l;
        for (std::size_t k = l + 1; k < kept.backward.size(); ++k) EXPECT_EQ(kept.backward[k], 0);
    }
    EXPECT_GT(seen[0].layers[7].backward[0], 0);
}

// A linear layer under a squared error has a curvature, and gains, that can be written down.
struct Quadratic {
    Quadratic() {
        layer = nn::Linear(24, 16);
        nn::initialize(*layer, 2);
        at::manual_seed(4);
        x = at::randn({64, 24}).requires_grad_();
        target = at::randn({64, 16});
        precision = std::make_shared<nn::Precision>();
        layer->attach(
            precision,
            precision->add_layer(
                {.name = "layer", .type = "layer", .in_features = 24, .out_features = 16}));
        precision->set_plan(plan::uniform_plan(precision->table(), "fp32"));
        optimizer =
            std::make_unique<optim::AdamW>(optim::parameters_of(*layer), optim::AdamWOptions{});
    }
    at::Tensor loss() const {
        return (layer->forward(x) - target).pow(2).sum().div(2.0 * double(x.size(0)));
    }

    mutable nn::Linear layer{nullptr};
    at::Tensor x, target;
    std::shared_ptr<nn::Precision> precision;
    std::unique_ptr<optim::AdamW> optimizer;
};

TEST(Measure, CurvatureAndGainOfASquaredError) {
    Quadratic q;
    plan::ModelStatistics statistics;
    statistics.table = q.precision->table();
    statistics.layers.resize(1);
    statistics.layers[0].t = 128;  // the step had twice the tokens of the probe
    measure_gains([&] { return q.loss(); }, *q.precision, {q.layer->weight}, *q.optimizer,
                  {.probes = Probes::kLayer, .curvature = true}, "fp32", statistics);
    // L(Y + e) + L(Y - e) - 2 L(Y) = |e|^2 / T exactly.
    EXPECT_NEAR(statistics.layers[0].curvature.value(), 1.0 / 128, 1e-4 / 128);
    // dW changes by e^T X / T, for Gaussian e by |e| |X| / T^(3/2) on average.
    const double expected = q.x.norm().item<double>() / std::pow(64.0, 1.5) * 64.0 / 128.0;
    EXPECT_NEAR(statistics.layers[0].forward[0], expected, 0.1 * expected);
}

TEST(Measure, SampledSumsOfAllTokensAreExact) {
    const Quadratic q;
    for (const std::int64_t sampled : {std::int64_t{64}, std::int64_t{1000}}) {
        StatisticsSink sink(kOneLayer, {"fp4", "mxfp8"}, kEverything, sampled);
        q.precision->observer = &sink;
        q.layer->weight.mutable_grad() = at::Tensor();
        q.loss().backward();
        q.precision->observer = nullptr;
        const plan::LayerStatistics s = sink.statistics()[0];
        const at::Tensor w = q.layer->weight.detach(), x32 = q.x.detach();
        const at::Tensor g = ((x32.mm(w.t()) - q.target) / 64.0).to(at::kDouble);
        const at::Tensor x = x32.to(at::kDouble);
        EXPECT_NEAR(s.outer.value() / (g.pow(2).sum(1) * x.pow(2).sum(1)).sum().item<double>(), 1.0,
                    1e-5);
        for (const char* name : {"fp4", "mxfp8"}) {
            const plan::SlotRecipe& slot = plan::find_recipe(name)[plan::Slot::kFprop];
            const at::Tensor ex = ops::fake_quantize(x32, slot.a).to(at::kDouble) - x;
            const at::Tensor ew = ops::fake_quantize(w, slot.b).to(at::kDouble) - w.to(at::kDouble);
            const at::Tensor qw = w.to(at::kDouble) + ew;
            const at::Tensor error = ex.mm(qw.t()) + x.mm(ew.t());
            const auto& e = s.errors.at(name);
            EXPECT_NEAR(e.output->squared / error.pow(2).sum().item<double>(), 1, 1e-4) << name;
            EXPECT_NEAR(e.output->elements / (g * error).pow(2).sum().item<double>(), 1, 1e-4);
            EXPECT_NEAR(e.output->tokens / (g * error).sum(1).pow(2).sum().item<double>(), 1, 1e-4);
            // First order: all of <G, E_Y> but <G, E_X E_W^T>.
            const double first = (g * (error - ex.mm(ew.t()))).sum().item<double>();
            EXPECT_NEAR(e.first_order.value(), first, 1e-5 * std::abs(first) + 1e-7) << name;
            // The loss is quadratic: first order, its cross term and |E_Y|^2 / 2T are all of it.
            const double cross = (g * ex.mm(ew.t())).sum().item<double>();
            q.precision->set_plan(plan::uniform_plan(q.precision->table(), name));
            const double low = q.loss().item<double>();
            q.precision->set_plan(plan::uniform_plan(q.precision->table(), "fp32"));
            EXPECT_NEAR(low - q.loss().item<double>(),
                        *e.first_order + cross + e.output->squared / 128, 1e-4)
                << name;
        }
    }
}

// A quarter of the tokens tells about the same as all.
TEST(Measure, SamplesStandForAllTokens) {
    Quadratic q;
    at::manual_seed(6);
    q.x = at::randn({2048, 24});
    q.target = at::randn({2048, 16});
    std::vector<plan::LayerStatistics> seen;
    for (const std::int64_t sampled : {std::int64_t{2048}, std::int64_t{512}}) {
        StatisticsSink sink(kOneLayer, {"fp4"}, kEverything, sampled);
        q.precision->observer = &sink;
        q.loss().backward();
        q.precision->observer = nullptr;
        seen.push_back(sink.statistics()[0]);
    }
    const auto &all = *seen[0].errors.at("fp4").output, &some = *seen[1].errors.at("fp4").output;
    EXPECT_NEAR(some.squared / all.squared, 1, 0.1);
    EXPECT_NEAR(some.elements / all.elements, 1, 0.15);
    EXPECT_NEAR(some.tokens / all.tokens, 1, 0.25);
    EXPECT_NEAR(*seen[1].outer / *seen[0].outer, 1, 0.1);
    EXPECT_NE(some.tokens, all.tokens);
}

TEST(Measure, LayerWithoutTokensDoesNoHarm) {
    Quadratic q;
    StatisticsSink sink(kOneLayer, {"fp4", "nvfp4"}, kEverything);
    q.precision->observer = &sink;
    const at::Tensor y = q.layer->forward(at::empty({0, 24}).requires_grad_());
    y.sum().backward();
    q.precision->observer = nullptr;
    plan::ModelStatistics statistics;
    statistics.loss = 1;
    statistics.table = q.precision->table();
    statistics.layers = sink.statistics();
    statistics.layers[0].curvature = 0;
    plan::check_statistics(statistics);
    EXPECT_TRUE(plan::is_unmeasured(statistics.layers[0]));
    for (const std::string& name : plan::estimator_names()) {
        const auto d =
            plan::estimate_divergence(statistics, {"fp4"}, plan::estimator_from_name(name));
        EXPECT_EQ(d[0][0].loss, 0) << name;
        EXPECT_EQ(d[0][0].weight, 0) << name;
    }
}

TEST(Measure, NonFiniteStepNamesLayerRoleAndStep) {
    LlamaFixture f;
    {
        at::NoGradGuard no_grad;
        f.weights[9].fill_(std::numeric_limits<float>::quiet_NaN());
    }
    try {
        plan::check_statistics(f.measure_step(Probes::kNone).statistics);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kDiverged);
        EXPECT_STREQ(
            error.what(),
            ("statistics of step 7: |W| of '" + f.precision->table()[9].name + "' is nan").c_str());
    }
}

// With every token of the step in the probes: what a plan does by the linearised step is what brute
// force finds.
TEST(Measure, ThePlanInForceIsRunBesideTheProbes) {
    LlamaFixture f;
    f.train(10);
    plan::Plan plan = plan::uniform_plan(f.precision->table(), "fp8");
    for (std::size_t l = 0; l < 7; ++l) plan.set(f.precision->table()[l].name, "fp4");
    StatisticsSink sink(f.precision->table(), {"fp8", "fp4"}, kEverything);
    f.precision->observer = &sink;
    const at::Tensor value = f.loss();
    value.backward();
    f.precision->observer = nullptr;
    const std::string before = f.precision->recipe(0)->name;
    const Measurement m = measure(sink, *f.precision, f.weights, *f.optimizer,
                                  {.loss = value.item<double>(),
                                   .replay = [&f] { return f.loss(); },
                                   .probe = {.probes = Probes::kLayer, .in_force = plan},
                                   .high = "fp32"});
    EXPECT_EQ(f.precision->recipe(0)->name, before);
    EXPECT_EQ(m.probe_passes, 1 + 2 * 14 + 1);
    f.optimizer->zero_grad();
    const std::vector<LossFunction> batches{[&f] { return f.loss(); }};
    const Realised r = realised({batches, *f.precision, *f.optimizer, f.weights, "fp32"}, plan,
                                m.statistics, plan::LossEstimator::kNormOnly);
    ASSERT_TRUE(m.in_force.has_value());
    EXPECT_NEAR(m.in_force->real.loss, r.real.loss, 1e-6);
    EXPECT_NEAR(m.in_force->real.weight / r.real.weight, 1, 0.25);
    EXPECT_DOUBLE_EQ(m.in_force->predicted.weight, r.predicted.weight);
    EXPECT_DOUBLE_EQ(m.in_force->predicted.loss, r.predicted.loss);
}

// A pinned recipe that is no option is measured where it is pinned, and only there.
TEST(Measure, PinnedRecipesAreMeasuredInTheirLayers) {
    LlamaFixture f;
    f.precision->fix_layer(1, {"", "mxfp4", ""});
    const auto& layers = f.measure_step(Probes::kNone).statistics.layers;
    for (std::size_t l = 0; l < layers.size(); ++l) {
        EXPECT_EQ(layers[l].errors.contains("mxfp4"), l == 1) << l;
        EXPECT_TRUE(layers[l].errors.contains("fp4"));
    }
    EXPECT_GT(layers[1].errors.at("mxfp4").eg, 0);
}

// What pinned slots do is part of the damage, of the predicted one and of the real one.
TEST(Realised, PinnedSlotsCount) {
    LlamaFixture f;
    f.train(10);
    for (std::uint32_t l = 0; l < 7; ++l) f.precision->fix_layer(l, {"fp4", "", ""});
    const Measurement m = f.measure_step(Probes::kLayer);
    f.optimizer->zero_grad();
    const std::vector<LossFunction> batches{[&f] { return f.loss(); }};
    const Oracle oracle{batches, *f.precision, *f.optimizer, f.weights, "fp32"};
    const plan::Plan nothing = plan::uniform_plan(f.precision->table(), "fp32");
    const Realised r = realised(oracle, nothing, m.statistics, plan::LossEstimator::kNormOnly);
    EXPECT_GT(r.real.weight, 0);
    EXPECT_GT(r.weight_factor(), 0.4);
    EXPECT_LT(r.weight_factor(), 1.6);
    EXPECT_EQ(f.precision->table()[0].pinned[0], "fp4");
    EXPECT_EQ(f.precision->recipe(0)->name, "fp4/fp32/fp32");
    const auto alone = oracle.per_layer({"fp32", "fp4"});
    EXPECT_GT(alone[0][0].weight, 0);
    EXPECT_GT(alone[0][1].weight, alone[0][0].weight);
    EXPECT_EQ(alone[7][0].weight, 0);  // no pin: the baseline
}

// The plan as a whole: predicted from its layers, and run.
TEST(Realised, PredictionAgreesWithTheRun) {
    LlamaFixture f;
    f.train(10);
    const Measurement m = f.measure_step(Probes::kLayer);
    f.optimizer->zero_grad();
    const std::vector<LossFunction> batches{[&f] { return f.loss(); }};
    const Oracle oracle{batches, *f.precision, *f.optimizer, f.weights, "fp32"};
    plan::Plan plan = plan::uniform_plan(f.precision->table(), "fp8");
    for (std::size_t l = 0; l < 7; ++l) plan.set(f.precision->table()[l].name, "fp4");
    const Realised r = realised(oracle, plan, m.statistics, plan::LossEstimator::kNormOnly);
    EXPECT_GT(r.real.weight, 0);
    EXPECT_GT(r.weight_factor(), 0.4);
    EXPECT_LT(r.weight_factor(), 1.6);
    EXPECT_GT(r.loss_factor(), 0);
    const Realised nothing = realised(oracle, plan::uniform_plan(f.precision->table(), "fp32"),
                                      m.statistics, plan::LossEstimator::kNormOnly);
    EXPECT_EQ(nothing.real.loss, 0);
    EXPECT_EQ(nothing.real.weight, 0);
    EXPECT_EQ(nothing.weight_factor(), 1);
    EXPECT_FALSE(f.weights[0].grad().defined());
}

}  // namespace
}  // namespace subbyte::snip
