// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/estimator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "plan_tables.h"
#include "subbyte/core/error.h"
#include "subbyte/plan/divergence.h"
#include "subbyte/plan/estimator_score.h"
#include "subbyte/plan/statistics_check.h"
#include "tests/error_of.h"

namespace subbyte::plan {
namespace {

LossChange change(LossEstimator estimator) {
    return loss_change(round_numbers(), "layer", "fp4", estimator);
}

TEST(Estimator, FormulasByHand) {
    const double spread = std::sqrt(25 * 0.04 / 36 + 36 * 0.09 / 144);
    EXPECT_NEAR(change(LossEstimator::kNormOnly).spread, spread, 1e-15);
    EXPECT_EQ(change(LossEstimator::kNormOnly).shift, 0);
    EXPECT_EQ(change(LossEstimator::kFirstOrder).shift, -0.5);
    EXPECT_EQ(change(LossEstimator::kFirstOrder).size(), 0.5);
    // |E_Y|^2 = (0.04 * 9 + 4 * 0.09) / 9 = 0.08; times 10 / 2.
    EXPECT_NEAR(change(LossEstimator::kSecondOrder).shift, 0.4, 1e-15);
    EXPECT_NEAR(change(LossEstimator::kSecondOrder).spread, spread, 1e-15);
    EXPECT_NEAR(change(LossEstimator::kSecondOrder).size(), std::hypot(0.4, spread), 1e-15);
    // T / 2 = 2.
    EXPECT_NEAR(change(LossEstimator::kGradientOutput).shift, 0.04, 1e-15);
    EXPECT_NEAR(change(LossEstimator::kFisher).shift, 0.06, 1e-15);
    EXPECT_NEAR(change(LossEstimator::kTaylor).shift, -0.5 + 0.06, 1e-15);
    // 2 * (7 * 0.09 / 144 + 25 * 0.04 / 36)
    EXPECT_NEAR(change(LossEstimator::kHessianTrace).shift, 2 * (0.63 / 144 + 1.0 / 36), 1e-15);
}

TEST(Estimator, AChangeOfRecipeByHand) {
    LayerStatistics layer = round_numbers();
    layer.errors["fp8"] = {.ex = 0.02, .ew = 0.03, .first_order = 0.1};
    layer.errors["fp8"].output = {.squared = 1, .elements = 0, .tokens = 0.004};
    // Fisher's terms are 2 * 0.03 and 2 * 0.004, and both directions pay them.
    const LossChange up = loss_change_between(layer, "layer", "fp4", "fp8");
    EXPECT_NEAR(up.shift, 0.1 + 0.5 + 0.06 + 0.008, 1e-15);
    EXPECT_NEAR(up.spread, std::sqrt(1.01 * (25 * 0.04 / 36 + 36 * 0.09 / 144)), 1e-15);
    EXPECT_NEAR(loss_change_between(layer, "layer", "fp8", "fp4").shift, -0.6 + 0.068, 1e-15);
    EXPECT_NEAR(loss_change_between(layer, "layer", "fp4", "bf16").shift, 0.5 + 0.06, 1e-15);
    EXPECT_EQ(loss_change_between(layer, "layer", "fp4", "fp4").size(), 0);
}

TEST(Estimator, NamesComeBackAndUnknownOnesAreRefused) {
    for (const std::string& name : estimator_names()) {
        EXPECT_EQ(estimator_name(estimator_from_name(name)), name);
    }
    try {
        estimator_from_name("norm-onyl");
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUsage);
        EXPECT_NE(error.hint().find("norm-only"), std::string::npos);
    }
}

// Without what it needs an estimator refuses; with nothing else it works.
TEST(Estimator, NeedsAreWhatIsUsed) {
    for (const std::string& name : estimator_names()) {
        const LossEstimator estimator = estimator_from_name(name);
        const Needs needs = needs_of(estimator);
        LayerStatistics bare = round_numbers();
        if (!needs.outer) bare.outer.reset();
        if (!needs.curvature) bare.curvature.reset();
        if (!needs.first_order) bare.errors["fp4"].first_order.reset();
        if (!needs.outputs) bare.errors["fp4"].output.reset();
        EXPECT_GT(loss_change(bare, "layer", "fp4", estimator).size(), 0) << name;
        EXPECT_EQ(loss_change(bare, "layer", "bf16", estimator).size(), 0) << name;
        EXPECT_EQ(loss_change({}, "layer", "fp4", estimator).size(), 0) << name;

        const auto refused = [&](bool needed, const std::function<void(LayerStatistics&)>& drop) {
            if (!needed) return true;
            LayerStatistics layer = round_numbers();
            drop(layer);
            try {
                loss_change(layer, "some.layer", "fp4", estimator);
            } catch (const Error& error) {
                return error.code() == ErrorCode::kUsage &&
                       std::string(error.what()).find("'some.layer'") != std::string::npos;
            }
            return false;
        };
        using S = LayerStatistics;
        EXPECT_TRUE(refused(needs.outer, [](S& s) { s.outer.reset(); })) << name;
        EXPECT_TRUE(refused(needs.curvature, [](S& s) { s.curvature.reset(); })) << name;
        EXPECT_TRUE(refused(needs.outputs, [](S& s) { s.errors["fp4"].output.reset(); })) << name;
        EXPECT_TRUE(refused(needs.first_order, [](S& s) { s.errors["fp4"].first_order.reset(); }))
            << name;
    }
}

TEST(Estimator, LocalErrorsByHand) {
    ModelStatistics statistics;
    statistics.loss = 1;
    statistics.table = {make_layer("a", 9, 16, 4), make_layer("b", 9, 16, 4)};
    statistics.table[1].candidate = false;
    statistics.layers = {round_numbers(), round_numbers()};
    EXPECT_NEAR(local_errors(statistics, {"fp4"}, false)[0][0], 0.9, 1e-15);
    EXPECT_NEAR(local_errors(statistics, {"fp4"}, true)[0][0], 0.1 + 0.1 + 0.1, 1e-15);
    EXPECT_EQ(local_errors(statistics, {"fp4"}, false)[1][0], 0);
    EXPECT_EQ(local_errors(statistics, {"bf16"}, true)[0][0], 0);
    // Every GEMM has the errors of its own operands.
    LayerStatistics& s = statistics.layers[0];
    s.errors["fp4"].ew_dgrad = 0.5;
    s.errors["fp4"].eg_wgrad = 0.8;
    s.errors["fp4"].ex_wgrad = 0.6;
    const auto& e = s.errors["fp4"];
    EXPECT_DOUBLE_EQ(local_error(s, e, Slot::kFprop, false, true), 0.5 * (0.2 + 0.3));
    EXPECT_DOUBLE_EQ(local_error(s, e, Slot::kDgrad, false, true), 0.5 * (0.4 + 0.5));
    EXPECT_DOUBLE_EQ(local_error(s, e, Slot::kWgrad, false, true), 0.5 * (0.8 + 0.6));
    EXPECT_DOUBLE_EQ(local_error(s, e, Slot::kFprop, true, true), 0.5 * (0.2 / 2 + 0.3 / 3));
    EXPECT_DOUBLE_EQ(local_error(s, e, Slot::kDgrad, true, true), 0.5 * (0.4 / 4 + 0.5 / 3));
    EXPECT_DOUBLE_EQ(local_error(s, e, Slot::kWgrad, true, true), 0.5 * (0.8 / 4 + 0.6 / 2));
    // For a layer as a whole every tensor has one.
    EXPECT_DOUBLE_EQ(local_error(s, e, Slot::kWgrad, false, false), 0.5 * (0.4 + 0.2));
    EXPECT_DOUBLE_EQ(local_errors(statistics, {"fp4"}, false)[0][0], 0.2 + 0.3 + 0.4);
}

// A plan with one quantised layer does what the layer does; shifts add up, squares of spreads too.
TEST(PlanDivergence, JoinsLayers) {
    const LayerTable table = llama_table(2, 64, 172, 16);
    const ModelStatistics statistics = random_statistics(table, 9);
    const auto norm_only = LossEstimator::kNormOnly, first_order = LossEstimator::kFirstOrder;
    const auto layers = estimate_divergence(statistics, {"fp4"}, norm_only);
    Plan one = uniform_plan(table, "bf16");
    one.set(table[3].name, "fp4");
    const Divergence alone = estimate_plan_divergence(statistics, one, norm_only);
    EXPECT_NEAR(alone.loss, layers[3][0].loss, 1e-12 * alone.loss);
    EXPECT_NEAR(alone.weight, layers[3][0].weight, 1e-12 * alone.weight);

    double squares = 0, sum = 0, signed_sum = 0;
    for (std::size_t l = 0; l < table.size(); ++l) {
        squares += layers[l][0].loss * layers[l][0].loss;
        sum += layers[l][0].weight;
        if (table[l].candidate) {
            signed_sum += *statistics.layers[l].errors.at("fp4").first_order;
        }
    }
    const Plan all = uniform_plan(table, "fp4");
    const Divergence whole = estimate_plan_divergence(statistics, all, norm_only);
    EXPECT_NEAR(whole.loss, std::sqrt(squares), 1e-12 * whole.loss);
    EXPECT_LT(whole.weight, sum);
    EXPECT_GT(whole.weight, alone.weight);
    EXPECT_NEAR(estimate_plan_divergence(statistics, all, first_order).loss,
                std::abs(signed_sum) / 3.0, 1e-15);
    EXPECT_EQ(estimate_plan_divergence(statistics, uniform_plan(table, "bf16"), norm_only).weight,
              0);
}

TEST(StatisticsAverage, SquaresAndMeans) {
    ModelStatistics a = random_statistics(llama_table(1, 64, 172, 16), 1);
    ModelStatistics b = a;
    a.loss = 2;
    b.loss = 4;
    a.layers[2].g = 3;
    b.layers[2].g = 4;
    a.layers[2].errors["fp4"].first_order = -1;
    b.layers[2].errors["fp4"].first_order = 2;
    a.layers[2].errors["fp4"].output = {.squared = 1, .elements = 2, .tokens = 3};
    b.layers[2].errors["fp4"].output = {.squared = 2, .elements = 4, .tokens = 9};
    b.layers[2].forward.clear();  // measured in one step only
    for (ModelStatistics* statistics : {&a, &b}) {
        for (LayerStatistics& layer : statistics->layers) layer.curvature.reset();
    }
    b.layers[2].curvature = 5;
    const ModelStatistics mean = average({a, b});
    EXPECT_EQ(mean.loss, 3);
    EXPECT_NEAR(mean.layers[2].g, std::sqrt(12.5), 1e-15);
    EXPECT_NEAR(mean.layers[2].x, a.layers[2].x, 1e-12);
    EXPECT_EQ(mean.layers[2].errors.at("fp4").first_order, 0.5);
    EXPECT_EQ(mean.layers[2].errors.at("fp4").output->tokens, 6);
    ASSERT_EQ(mean.layers[2].forward.size(), a.table.size());
    EXPECT_NEAR(mean.layers[2].forward[1], a.layers[2].forward[1], 1e-15);
    EXPECT_EQ(mean.layers[2].curvature, 5);
    EXPECT_FALSE(mean.layers[1].curvature.has_value());
    ModelStatistics other = a;
    other.table[0].name = "else";
    EXPECT_THROW(average({a, other}), Error);
    EXPECT_THROW(average({}), Error);
}

// What went wrong first is named: forward from the first layer, backward from the last.
TEST(StatisticsCheck, FirstNonFiniteNumberOfTheStepIsNamed) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const ModelStatistics good = random_statistics(llama_table(1, 64, 172, 16), 1);
    check_statistics(good);
    const auto complaint = [](const ModelStatistics& s) {
        return refusal(ErrorCode::kDiverged, [&] { check_statistics(s); });
    };
    ModelStatistics s = good;
    for (std::size_t l = 2; l < s.layers.size(); ++l) s.layers[l].y = nan;
    for (LayerStatistics& layer : s.layers) layer.g = nan;
    s.loss = nan;
    EXPECT_NE(complaint(s).find("step 100: |Y| of 'model.layers.0.self_attn.v_proj'"),
              std::string::npos)
        << complaint(s);
    s = good;
    for (std::size_t l = 0; l < 4; ++l) s.layers[l].g = nan;
    EXPECT_NE(complaint(s).find("|G| of 'model.layers.0.self_attn.o_proj'"), std::string::npos)
        << complaint(s);
    s = good;
    s.loss = nan;
    EXPECT_NE(complaint(s).find("the loss is nan"), std::string::npos);
}

TEST(StatisticsCheck, AnotherModelIsNamedByItsFirstDifference) {
    const LayerTable table = llama_table(2, 64, 172, 16);
    const auto difference = [&](const LayerTable& measured) {
        return refusal(ErrorCode::kData,
                       [&] { check_same_model(random_statistics(measured, 1), table); });
    };
    EXPECT_EQ(difference(table), "accepted");
    EXPECT_NE(difference(llama_table(2, 64, 160, 16)).find("mlp.gate_proj' of 160 x 64"),
              std::string::npos);
    EXPECT_NE(difference(llama_table(1, 64, 172, 16)).find("'lm_head'"), std::string::npos);
    LayerTable shorter = table;
    shorter.pop_back();
    EXPECT_NE(difference(shorter).find("14 linear layers, here are 15"), std::string::npos);
}

TEST(EstimatorScore, RankCorrelation) {
    EXPECT_EQ(spearman({1, 2, 3, 4}, {10, 20, 30, 400}), 1);
    EXPECT_EQ(spearman({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
    EXPECT_NEAR(spearman({1, 2, 3, 4, 5}, {2, 1, 4, 3, 5}), 0.8, 1e-15);  // 1 - 6 * 4 / (5 * 24)
    EXPECT_NEAR(spearman({1, 1, 2, 3}, {1, 2, 3, 4}), 4.5 / std::sqrt(4.5 * 5), 1e-15);  // a tie
    EXPECT_EQ(spearman({1, 1, 1}, {1, 2, 3}), 0);
    EXPECT_EQ(spearman({}, {}), 0);
}

TEST(EstimatorScore, MedianRatio) {
    EXPECT_EQ(median_ratio({2, 3, 40}, {1, 1, 1}), 3);
    EXPECT_EQ(median_ratio({2, 4, 0}, {1, 1, 1}), 3);  // the zero does not count
    EXPECT_EQ(median_ratio({0}, {1}), 0);
}

}  // namespace
}  // namespace subbyte::plan
