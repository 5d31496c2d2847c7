// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/plan_model.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/train/config_reader.h"
#include "subbyte/train/config_rules.h"

namespace subbyte::train {
namespace {

Config config_of(const std::string& preset, const std::vector<std::string>& sets = {}) {
    return load_config(preset, sets).config;
}

ModelPlanOptions in_stages(int stages) {
    ModelPlanOptions options;
    options.stages = stages;
    return options;
}

const plan::Cost& total(const ModelPlan& plan, const std::string& name) {
    for (const NamedCost& cost : plan.costs) {
        if (cost.name == name) return cost.cost.total;
    }
    throw std::runtime_error(name);
}

// FLOP shares published for the shapes (per cent of the block linears).
TEST(PlanModel, LayerTypesHaveTheSharesOfTheirShapes) {
    const ModelPlan plan = plan_model(config_of("llama-70b"), {});
    double blocks = 0;
    for (const LayerType& type : layer_types(plan.table)) {
        if (type.candidate) blocks += type.flops_share;
    }
    const std::map<std::string, double> expected{{"q_proj", 7.84},     {"k_proj", .98},
                                                 {"v_proj", .98},      {"o_proj", 7.84},
                                                 {"gate_proj", 27.45}, {"down_proj", 27.45}};
    for (const LayerType& type : layer_types(plan.table)) {
        if (type.type == "lm_head") {
            EXPECT_FALSE(type.candidate);
            continue;
        }
        EXPECT_EQ(type.layers, 80);
        EXPECT_TRUE(type.same_shape);
        const auto share = expected.find(type.type);
        if (share != expected.end()) {
            EXPECT_NEAR(100 * type.flops_share / blocks, share->second, 0.01) << type.type;
        }
    }
}

TEST(PlanModel, SeventyBillionParametersTakeLittleTime) {
    const auto start = std::chrono::steady_clock::now();
    const ModelPlan plan = plan_model(config_of("llama-70b"), in_stages(8));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    RecordProperty("seconds", std::to_string(seconds.count()));
    // LLaMA-2 70B as published: 68.98 billion.
    EXPECT_NEAR(plan.parameters, 68.98e9, 0.01e9);
    EXPECT_EQ(plan.tokens_per_step, 1024 * 4096);
    EXPECT_EQ(plan.micro_batch_tokens, 4096);
    const plan::Cost& bf16 = total(plan, "bf16");
    EXPECT_DOUBLE_EQ(bf16.master_weights, 4 * plan.parameters);
    EXPECT_DOUBLE_EQ(bf16.gradients, 4 * plan.parameters);
    EXPECT_DOUBLE_EQ(bf16.optimizer_states, 8 * plan.parameters);
    EXPECT_NEAR(bf16.speedup(), 1, 1e-9);
    EXPECT_NEAR(total(plan, "fp8").candidate_speedup(), 2, 1e-9);
    EXPECT_NEAR(total(plan, "fp4").candidate_speedup(), 4, 1e-9);
    // The head stays in BF16, so the whole is slower than its candidates.
    EXPECT_LT(total(plan, "fp4").speedup(), 4);
    EXPECT_GT(total(plan, "fp4").speedup(), 3.8);
}

TEST(PlanModel, EveryStageReachesTheTarget) {
    const ModelPlan plan =
        plan_model(config_of("llama-70b", {"precision.snip.target=0.5"}), in_stages(8));
    ASSERT_EQ(plan.stages.size(), 8u);
    for (const StagePlan& stage : plan.stages) {
        EXPECT_GE(stage.fp4_share, 0.5 - 1e-9);
        EXPECT_NEAR(stage.reached, stage.fp4_share, 1e-12);
        EXPECT_EQ(stage.target, 0.5);
    }
    EXPECT_EQ(plan.result.plan.method, "layer-type");
    ASSERT_FALSE(plan.notes.empty());
    EXPECT_NE(plan.notes[0].find("method snip needs statistics"), std::string::npos);
    double flops = 0;
    for (const plan::Cost& stage : plan.costs[0].cost.stages) {
        flops += stage.gemm_flops;
        EXPECT_NEAR(stage.gemm_flops / total(plan, "bf16").gemm_flops, 1.0 / 8, 0.005);
    }
    EXPECT_DOUBLE_EQ(flops, total(plan, "bf16").gemm_flops);
}

TEST(PlanModel, StagesAreConsecutiveAndNeverEmpty) {
    for (int stages = 1; stages <= 8; ++stages) {
        ModelPlan plan = plan_model(config_of("llama-9m"), in_stages(stages));
        int before = 0;
        std::vector<int> layers(static_cast<std::size_t>(stages));
        for (const plan::LayerInfo& layer : plan.table) {
            EXPECT_TRUE(layer.stage == before || layer.stage == before + 1) << layer.name;
            before = layer.stage;
            if (layer.block >= 0) ++layers[static_cast<std::size_t>(layer.stage)];
        }
        EXPECT_EQ(before, stages - 1);
        for (const int count : layers) EXPECT_GT(count, 0) << stages;
    }
    for (const int stages : {0, -1, 9}) {
        EXPECT_THROW(plan_model(config_of("llama-9m"), in_stages(stages)), Error) << stages;
    }
}

TEST(PlanModel, HeadAndRulesArePartOfTheCostButNotOfThePlan) {
    Config config = config_of("llama-9m", {"precision.snip.method=uniform", "precision.head=fp8"});
    config.precision.rules = {{"*.0.*", "bf16", ""}, {"*.1.*", "fp8", "wgrad"}};
    const ModelPlan plan = plan_model(config, {});
    EXPECT_EQ(plan.result.plan.method, "uniform");
    EXPECT_EQ(plan.result.plan.layers.size(), 7u * 7);  // of block 1 two slots per layer
    EXPECT_EQ(plan.plan.recipe("lm_head", plan::Slot::kFprop), "fp8");
    EXPECT_EQ(plan.plan.recipe("model.layers.0.mlp.up_proj", plan::Slot::kFprop), "bf16");
    EXPECT_EQ(plan.plan.recipe("model.layers.1.mlp.up_proj", plan::Slot::kWgrad), "fp8");
    EXPECT_EQ(plan.plan.recipe("model.layers.1.mlp.up_proj", plan::Slot::kDgrad), "fp4");
    EXPECT_EQ(plan.plan.recipe("model.layers.2.mlp.up_proj", plan::Slot::kDgrad), "fp4");
}

TEST(PlanModel, TimeSavedIsNamedAndReached) {
    const ModelPlan plan =
        plan_model(config_of("llama-9m", {"precision.snip.efficiency=time-saved",
                                          "precision.snip.options=[\"bf16\", \"fp8\"]",
                                          "precision.snip.target=0.4"}),
                   {});
    EXPECT_EQ(plan.result.efficiency, plan::Efficiency::kTimeSaved);
    EXPECT_GE(plan.result.reached, 0.4);
    EXPECT_EQ(to_json(plan)["efficiency"], "time-saved");
    EXPECT_EQ(to_json(plan)["fp4_share"], 0);
    // 1 / (1 - saved) is the speed of the candidates.
    EXPECT_NEAR(total(plan, "plan").candidate_speedup(), 1 / (1 - plan.result.reached), 1e-9);
}

}  // namespace
}  // namespace subbyte::train
