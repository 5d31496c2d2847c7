// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/cost_model.h"

#include <gtest/gtest.h>

#include "plan_tables.h"
#include "subbyte/core/error.h"
#include "subbyte/plan/planner.h"

namespace subbyte::plan {
namespace {

TEST(CostModel, SpeedFollowsTheWiderOperand) {
    const std::pair<const char*, double> speeds[] = {
        {"fp32", 0.5}, {"bf16", 1}, {"fp8", 2}, {"int8", 2}, {"fp4", 4}, {"int4", 4}, {"nvfp4", 4}};
    for (const auto& [recipe, speed] : speeds) {
        for (const Slot slot : kSlots) EXPECT_EQ(modelled_speed(find_recipe(recipe)[slot]), speed);
    }
    EXPECT_EQ(modelled_speed({formats::parse_spec("e2m1:1x128:f32"), formats::parse_spec("bf16")}),
              1);
}

// 1 / ((1 - s) / 2 + s / 4) for a share s of FP4, the rest FP8.
TEST(CostModel, SpeedUpOfKnownShares) {
    LayerTable table;
    for (int i = 0; i < 20; ++i) {
        table.push_back(make_layer("l." + std::to_string(i) + ".fc", 128, 128, 64));
    }
    for (const auto& [share, speedup] :
         {std::pair(0.0, 2.0), {0.5, 8.0 / 3}, {0.75, 3.2}, {0.8, 10.0 / 3}, {1.0, 4.0}}) {
        PlannerOptions options;
        options.method = "layer-id";
        options.recipes = {"fp8", "fp4"};
        options.target = share;
        const Plan plan = make_plan(table, {}, options).plan;
        ASSERT_NEAR(fp4_share(plan, table), share, 1e-12);
        const Cost cost = estimate_cost(plan, table).total;
        EXPECT_NEAR(cost.speedup(), speedup, 1e-12);
        EXPECT_NEAR(cost.candidate_speedup(), speedup, 1e-12);
    }
    EXPECT_EQ(estimate_cost(uniform_plan(table, "bf16"), table).total.speedup(), 1.0);
}

TEST(CostModel, LayersKeptHighCountInTheWholeOnly) {
    LayerTable table{make_layer("fc", 128, 128, 64), make_layer("lm_head", 128, 128, 64)};
    table[1].candidate = false;
    const Cost cost = estimate_cost(uniform_plan(table, "fp4"), table).total;
    EXPECT_EQ(cost.gemm_flops, 2 * 3 * 2.0 * 64 * 128 * 128);
    EXPECT_EQ(cost.candidate_flops, cost.gemm_flops / 2);
    EXPECT_EQ(cost.candidate_speedup(), 4.0);
    EXPECT_EQ(cost.speedup(), 2 / (1 + 0.25));
}

TEST(CostModel, BytesByHand) {
    // 128 inputs, 256 outputs, 64 tokens.
    const LayerTable table{make_layer("fc", 128, 256, 64)};
    const auto cost = [&](const std::string& recipe) {
        return estimate_cost(uniform_plan(table, recipe), table).total;
    };
    const double weights = 128 * 256;
    for (const std::string recipe : {"fp32", "bf16", "fp8", "fp4"}) {
        EXPECT_EQ(cost(recipe).parameters, weights);
        EXPECT_EQ(cost(recipe).master_weights, 4 * weights);
        EXPECT_EQ(cost(recipe).gradients, 4 * weights);
        EXPECT_EQ(cost(recipe).optimizer_states, 8 * weights);
    }
    EXPECT_EQ(cost("fp32").quantised_weights, 0);  // the master weights themselves
    EXPECT_EQ(cost("fp32").saved_activations, 4 * 64 * 128);
    EXPECT_EQ(cost("bf16").quantised_weights, 2 * 2 * weights);
    EXPECT_EQ(cost("bf16").saved_activations, 2 * 64 * 128);
    // Two 128x128 blocks with an FP32 scale each, W and W^T; X^T in 128 rows of one tile of 64.
    EXPECT_EQ(cost("fp8").quantised_weights, 2 * (weights + 2 * 4));
    EXPECT_EQ(cost("fp8").saved_activations, 64 * 128 + 128 * 4);
    EXPECT_EQ(cost("fp4").quantised_weights, 2 * (weights / 2 + 2 * 4));
    EXPECT_EQ(cost("fp4").saved_activations, 64 * 128 / 2 + 128 * 4);
    // NVFP4: one byte per 16x16 block or 1x16 tile, and 4 bytes of the second level.
    EXPECT_EQ(cost("nvfp4").quantised_weights, 2 * (weights / 2 + weights / 256 + 4));
    EXPECT_EQ(cost("nvfp4").saved_activations, 64 * 128 / 2 + 64 * 128 / 16 + 4);
    EXPECT_EQ(cost("fp4").bytes(),
              16 * weights + cost("fp4").quantised_weights + cost("fp4").saved_activations);
}

TEST(CostModel, SlotsMayDiffer) {
    const LayerTable table{make_layer("fc", 128, 256, 64)};
    Plan plan;
    plan.layers["fc"] = {"fp4", "fp8", "bf16"};
    const Cost cost = estimate_cost(plan, table).total;
    EXPECT_EQ(cost.quantised_weights, (128 * 256 / 2 + 8) + (128 * 256 + 8));
    EXPECT_EQ(cost.saved_activations, 2 * 64 * 128);
    EXPECT_NEAR(cost.speedup(), 3 / (0.25 + 0.5 + 1), 1e-12);
}

TEST(CostModel, OptionsAndStages) {
    const LayerTable table = llama_table(4, 64, 172, 16, 2);
    CostOptions options{
        .master_bytes = 0, .gradient_bytes = 2, .optimizer_bytes = 2, .other_parameters = 1000};
    const CostEstimate estimate = estimate_cost(uniform_plan(table, "fp4"), table, options);
    ASSERT_EQ(estimate.stages.size(), 2u);
    double parameters = 1000, flops = 0;
    for (const LayerInfo& layer : table) {
        parameters += layer.weights();
        flops += 3 * layer.slot_flops();
    }
    EXPECT_EQ(estimate.total.parameters, parameters);
    EXPECT_EQ(estimate.total.gemm_flops, flops);
    EXPECT_EQ(estimate.total.master_weights, 0);
    EXPECT_EQ(estimate.total.gradients, 2 * parameters);
    EXPECT_EQ(estimate.total.optimizer_states, 2 * parameters);
    EXPECT_EQ(estimate.stages[0].parameters + estimate.stages[1].parameters, parameters);
    EXPECT_EQ(estimate.stages[1].parameters - estimate.stages[0].parameters,
              table.back().weights() - 1000);
}

// A 70B shape is costed without allocating it: 80 blocks and the head on 8 stages.
TEST(CostModel, PlansForModelsThatDoNotFit) {
    const LayerTable table = llama_table(80, 8192, 28672, 1024, 8, 4096);
    const CostEstimate estimate = estimate_cost(uniform_plan(table, "fp4"), table);
    EXPECT_NEAR(estimate.total.candidate_flops, 80 * 3 * 2.0 * 4096 * 855638016.0, 1);
    EXPECT_EQ(estimate.total.candidate_speedup(), 4.0);
    EXPECT_GT(estimate.total.bytes(), 1.0e12);  // master, gradients and AdamW of 68.7e9 parameters
    EXPECT_EQ(estimate.stages.size(), 8u);
    EXPECT_EQ(estimate.stages[0].candidate_flops, estimate.stages[3].candidate_flops);
}

TEST(CostModel, BadShapesAreNamed) {
    LayerTable table{make_layer("fc", -1, 256, 64)};
    EXPECT_THROW(estimate_cost({}, table), Error);
    table[0].in_features = 1;
    table[0].stage = -1;
    EXPECT_THROW(estimate_cost({}, table), Error);
    table[0].stage = 0;
    Plan plan;
    plan.set("fc", "fp5");
    EXPECT_THROW(estimate_cost(plan, table), Error);
    EXPECT_EQ(estimate_cost({}, {}).total.speedup(), 1.0);
}

}  // namespace
}  // namespace subbyte::plan
