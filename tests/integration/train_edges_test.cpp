// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs under SNIP with hardly anything to choose, or everything: the run goes on, and says what it
// could not do.
#include "tests/integration/train_util.h"

namespace subbyte::train {
namespace {

using plan::Slot;

// A run of one block that keeps in BF16 what the glob matches.
Config mostly_pinned(const TempFolder& folder, const std::string& pinned) {
    Config config = tiny_config(folder, "snip");
    config.model.layers = 1;
    config.precision.rules = {{pinned, "bf16", ""}};
    return config;
}

TEST(Edges, WithoutALayerToPlanForARunIsOneInBf16) {
    TempFolder folder;
    Config config = mostly_pinned(folder, "*");
    Recorder planned, fixed;
    run(config, planned);
    EXPECT_TRUE(planned.plans.empty() || planned.plans.back().result.plan.layers.empty());
    EXPECT_EQ(planned.steps.back().fp4_share, 0);
    config.run.dir = folder / "fixed";
    config.precision.recipe = "bf16";
    config.precision.rules.clear();
    run(config, fixed);
    EXPECT_EQ(planned.losses(), fixed.losses());
}

TEST(Edges, OneLayerOrOneGemmIsPlannedAlone) {
    TempFolder folder;
    Config config = mostly_pinned(folder, "*.[qkvogd]*_proj");
    config.precision.snip.granularity = "layer";
    Recorder layer, gemm;
    run(config, layer);
    ASSERT_EQ(layer.plans.size(), 3u);
    ASSERT_EQ(layer.plans.back().result.plan.layers.size(), 1u);
    EXPECT_EQ(layer.plans.back().result.plan.recipe("model.layers.0.mlp.up_proj", Slot::kWgrad),
              "fp4");
    EXPECT_DOUBLE_EQ(layer.steps.back().fp4_share, 1);

    config.run.dir = folder / "gemm";
    config.precision.snip.granularity = "gemm";
    config.precision.rules.push_back({"*.up_proj", "bf16", "fprop"});
    config.precision.rules.push_back({"*.up_proj", "fp8", "dgrad"});
    run(config, gemm);
    ASSERT_EQ(gemm.plans.size(), 3u);
    EXPECT_EQ(gemm.plans.back().result.plan.layers.at("model.layers.0.mlp.up_proj"),
              (std::array<std::string, 3>{"bf16", "fp8", "fp4"}));
    EXPECT_DOUBLE_EQ(gemm.steps.back().fp4_share, 1);
}

TEST(Edges, TargetsOfNothingAndOfEverything) {
    TempFolder folder;
    for (const double target : {0.0, 1.0}) {
        Config config = tiny_config(folder, "snip");
        config.run.dir = folder / std::to_string(target);
        config.precision.snip.target = target;
        config.precision.snip.max_target = target;
        Recorder recorder;
        run(config, recorder);
        ASSERT_EQ(recorder.plans.size(), 3u);
        for (const SnipEvent& event : recorder.plans) {
            EXPECT_TRUE(event.applied);
            EXPECT_FALSE(event.result.relaxed);
            EXPECT_GE(event.result.reached, target * (1 - 1e-9));
        }
        if (target == 1.0) {
            EXPECT_DOUBLE_EQ(recorder.steps.back().bits, 4);
        }
    }
}

TEST(Edges, ATargetBeyondTheOptionsIsRelaxedAndSaidSo) {
    TempFolder folder;
    Config config = tiny_config(folder, "snip");
    config.precision.snip.options = {"bf16", "fp8"};
    config.precision.snip.efficiency = "time-saved";
    config.precision.snip.target = 0.7;
    Recorder recorder;
    run(config, recorder);
    ASSERT_EQ(recorder.plans.size(), 3u);
    const plan::PlanResult& result = recorder.plans.back().result;
    EXPECT_TRUE(result.relaxed);
    EXPECT_NEAR(result.reached, 0.5, 1e-12);
    ASSERT_FALSE(result.notes.empty());
    EXPECT_NE(result.notes[0].find("relaxed to 0.5"), std::string::npos) << result.notes[0];
}

TEST(Edges, OneOptionIsAPlanToo) {
    TempFolder folder;
    Config config = tiny_config(folder, "snip");
    config.precision.snip.options = {"fp4"};
    Recorder recorder;
    run(config, recorder);
    EXPECT_DOUBLE_EQ(recorder.steps.back().fp4_share, 1);
    config.run.dir = folder / "same";
    config.precision.snip.options = {"fp4", "fp4"};
    const std::string message = error_of(ErrorCode::kUsage, [&] { run(config, recorder); });
    EXPECT_NE(message.find("'fp4' is named twice"), std::string::npos) << message;
}

}  // namespace
}  // namespace subbyte::train
