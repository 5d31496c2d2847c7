// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// What a configuration says about precision is what the model computes in: FP32 throughout, slots
// that rules pin, a head that is planned, pipeline stages.
#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "subbyte/io/jsonl.h"
#include "subbyte/models/llama.h"
#include "subbyte/nn/init.h"
#include "subbyte/plan/statistics.h"
#include "subbyte/train/config_model.h"
#include "subbyte/train/config_reader.h"
#include "subbyte/train/inspect_run.h"
#include "subbyte/train/optimizer_setup.h"
#include "subbyte/train/precision_setup.h"
#include "tests/integration/train_util.h"

namespace subbyte::train {
namespace {

using plan::Slot;

models::Llama model_of(const Config& config) {
    models::Llama model(model_config(config, 256));
    nn::initialize(*model, 7);
    return model;
}

TEST(Fp32, IsFp32InEveryPart) {
    TempFolder folder;
    const Config config =
        parse_config("[model]\npreset = \"llama-9m\"\nlayers = 2\n[precision]\nrecipe = \"fp32\"\n",
                     "fp32.toml")
            .config;
    EXPECT_EQ(config.precision.head, "fp32");
    models::Llama plain = model_of(config), trained = model_of(config);
    const auto optimizer = set_up_optimizer(config, *trained);
    const PrecisionSetup setup = set_up_precision(config, *trained, *optimizer);
    const at::Tensor ids = at::arange(2 * 64).remainder(251).view({2, 64});
    const auto gradients = [&](models::Llama& model) {
        const ops::SummedLoss loss = model->loss(ids, models::shift_labels(ids));
        loss.sum.backward();
        std::vector<at::Tensor> all{loss.sum.detach()};
        for (const at::Tensor& p : model->parameters()) all.push_back(p.grad());
        return all;
    };
    // A model without a precision table computes in FP32 alone.
    const std::vector<at::Tensor> expected = gradients(plain), found = gradients(trained);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
    // A head that is asked for in BF16 is.
    const std::string other = "[model]\npreset = \"llama-9m\"\n[precision]\nrecipe = \"fp32\"\n";
    EXPECT_EQ(parse_config(other + "head = \"bf16\"\n", "x.toml").config.precision.head, "bf16");
}

TEST(Rules, PinOneSlotAndLeaveTheRestToThePlan) {
    for (const char* granularity : {"layer", "gemm"}) {
        SCOPED_TRACE(granularity);
        TempFolder folder;
        Config config = tiny_config(folder, "snip");
        config.precision.snip.granularity = granularity;
        config.precision.snip.target = 1.0;
        config.precision.snip.max_target = 1.0;
        config.precision.rules = {{"*.down_proj", "fp8", ""},
                                  {"*.down_proj", "int8", "fprop"},
                                  {"*.[qk]_proj", "bf16", "dgrad"},
                                  {"*.1.*.q_proj", "fp8", "dgrad"}};  // the last match wins
        Recorder recorder;
        run(config, recorder);
        ASSERT_EQ(recorder.plans.size(), 3u);
        EXPECT_FALSE(recorder.plans.back().result.relaxed);
        const plan::Plan plan = read_run(config.run.dir).plan;
        using Recipes = std::array<std::string, 3>;
        const std::string block = "model.layers.1.";
        EXPECT_FALSE(plan.layers.contains(block + "mlp.down_proj"));  // nothing left to plan
        EXPECT_EQ(plan.layers.at(block + "self_attn.q_proj"), (Recipes{"fp4", "fp8", "fp4"}));
        EXPECT_EQ(plan.layers.at(block + "self_attn.k_proj"), (Recipes{"fp4", "bf16", "fp4"}));
        EXPECT_EQ(plan.layers.at("model.layers.0.self_attn.q_proj"),
                  (Recipes{"fp4", "bf16", "fp4"}));
        EXPECT_EQ(plan.layers.at(block + "mlp.up_proj"), (Recipes{"fp4", "fp4", "fp4"}));
        EXPECT_NEAR(recorder.steps.back().fp4_share, 1.0, 1e-12);
        EXPECT_DOUBLE_EQ(recorder.steps.back().bits, 4);
    }
}

TEST(Rules, PinSlotsOfAGivenPlanToo) {
    TempFolder folder;
    Config config = tiny_config(folder);
    write_file(folder / "plan.json",
               R"({"version": 1, "method": "given", "fallback": "fp8", "layers": {}})");
    config.precision.plan = folder / "plan.json";
    config.precision.rules = {{"*.0.*.up_proj", "bf16", "wgrad"}};
    models::Llama model = model_of(config);
    const auto optimizer = set_up_optimizer(config, *model);
    const PrecisionSetup setup = set_up_precision(config, *model, *optimizer);
    const auto recipe = [&](const std::string& layer) {
        return setup.precision->recipe(setup.precision->layer_index(layer))->name;
    };
    EXPECT_EQ(recipe("model.layers.0.mlp.up_proj"), "fp8/fp8/bf16");
    EXPECT_EQ(recipe("model.layers.1.mlp.up_proj"), "fp8");
    EXPECT_EQ(recipe("lm_head"), "bf16");
}

TEST(Head, IsMeasuredAndPlannedWhenAsked) {
    TempFolder folder;
    Config config = tiny_config(folder, "snip");
    config.precision.head = "snip";
    config.precision.snip.target = 1.0;
    config.precision.snip.max_target = 1.0;
    config.log.stats = true;
    Recorder recorder;
    run(config, recorder);
    const plan::Plan plan = read_run(config.run.dir).plan;
    EXPECT_EQ(plan.recipe("lm_head", Slot::kFprop), "fp4");
    const auto records = io::read_jsonl(config.run.dir + "/stats.jsonl").records;
    ASSERT_EQ(records.size(), 3u);
    const plan::ModelStatistics statistics =
        plan::statistics_from_json(records.back().value.at("statistics"));
    const plan::LayerInfo& info = statistics.table.back();
    const plan::LayerStatistics& head = statistics.layers.back();
    EXPECT_EQ(info.name, "lm_head");
    EXPECT_TRUE(info.candidate);
    EXPECT_EQ(head.t, 4.0 * 16);
    EXPECT_EQ(head.n, static_cast<double>(info.out_features));
    for (const double norm : {head.x, head.w, head.y, head.g, head.dx, head.dw, head.jacobian,
                              head.errors.at("fp4").eg, head.errors.at("fp8").ew}) {
        EXPECT_GT(norm, 0);
    }
    // Softmax minus one-hot over T tokens: between 0 and sqrt(2) per token of the mean loss.
    EXPECT_LT(head.g, std::sqrt(2.0 / head.t));

    // What is measured changes nothing of what is computed.
    Config still = config;
    still.run.dir = folder / "still";
    still.precision.snip.warmup_steps = {12, -1};
    Recorder high;
    run(still, high);
    EXPECT_EQ(high.losses().front(), recorder.losses().front());
    EXPECT_EQ(high.losses()[1], recorder.losses()[1]);  // no plan before step 2
}

TEST(Stages, EachReachesTheTargetByItself) {
    TempFolder folder;
    Config config = tiny_config(folder, "snip");
    for (const std::vector<std::int64_t>& stages :
         {std::vector<std::int64_t>{2}, std::vector<std::int64_t>{0, 1}}) {
        config.run.dir = folder / std::to_string(stages.size());
        config.precision.snip.stages = stages;
        Recorder recorder;
        run(config, recorder);
        ASSERT_EQ(recorder.plans.size(), 3u);
        for (const SnipEvent& event : recorder.plans) {
            ASSERT_EQ(event.result.stages.size(), 2u);
            for (const auto& stage : event.result.stages) EXPECT_GE(stage.reached, 0.5 - 1e-9);
        }
    }
    config.run.dir = folder / "many";
    config.precision.snip.stages = {3};
    Recorder recorder;
    const std::string message = error_of(ErrorCode::kUsage, [&] { Trainer(config, recorder); });
    EXPECT_NE(message.find("3 pipeline stages for 2 blocks"), std::string::npos) << message;
}

}  // namespace
}  // namespace subbyte::train
