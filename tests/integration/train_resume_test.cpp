// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// A run that is stopped and taken up again has the bits of one that never stopped, whatever the
// recipe, the optimizer and the number of threads.
#include <nlohmann/json.hpp>

#include "subbyte/io/json_file.h"
#include "subbyte/io/manifest.h"
#include "tests/integration/train_util.h"

namespace subbyte::train {
namespace {

struct Case {
    std::string recipe, optimizer;
    std::int64_t grad_accum, threads_before, threads_after;
};

class TrainResume : public ::testing::TestWithParam<Case> {};

TEST_P(TrainResume, HasTheBitsOfTheStraightRun) {
    const Case& c = GetParam();
    TempFolder folder;
    Config config = tiny_config(folder, c.recipe);
    config.optim.name = c.optimizer;
    config.optim.stable_spam.reset_interval = 7;
    config.train.grad_accum = c.grad_accum;

    Config straight = config;
    straight.run.dir = folder / "straight";
    straight.run.threads = c.threads_after;
    Recorder whole;
    const RunEnd end = run(straight, whole);
    EXPECT_FALSE(end.interrupted);
    ASSERT_EQ(whole.steps.size(), 12u);

    config.run.threads = c.threads_before;
    Recorder first;
    const RunEnd half = run(config, first, 5);
    EXPECT_TRUE(half.interrupted);
    EXPECT_EQ(half.step, 5);
    ASSERT_TRUE(std::filesystem::exists(checkpoint_of(config, 5) + "/manifest.json"));
    if (c.recipe == "snip") {
        // Measured in iteration 4, in force from 6: the plan is in flight in this checkpoint.
        const auto saved =
            nlohmann::json::parse(read_file(checkpoint_of(config, 5) + "/precision.json"));
        ASSERT_TRUE(saved.contains("in_flight"));
        EXPECT_EQ(saved["in_flight"]["measured_at"], 4);
        EXPECT_EQ(saved["in_flight"]["swap_step"], 6);
    }

    config.run.threads = c.threads_after;
    Recorder second;
    run(config, second);
    std::vector<double> losses = first.losses();
    for (const double loss : second.losses()) losses.push_back(loss);
    EXPECT_EQ(losses, whole.losses());
    expect_same_checkpoint(checkpoint_of(config, 12), checkpoint_of(straight, 12));
    ASSERT_FALSE(whole.evals.empty());
    EXPECT_EQ(second.evals.back().loss, whole.evals.back().loss);
    if (c.recipe == "snip") {
        ASSERT_EQ(first.plans.size() + second.plans.size(), whole.plans.size());
        EXPECT_EQ(second.plans.front().measured_at, 4);
        EXPECT_EQ(second.plans.front().effective_at, 6);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, TrainResume,
    ::testing::Values(Case{"snip", "adamw", 1, 1, 2}, Case{"snip", "stable-spam", 2, 2, 1},
                      Case{"fp4", "adamw", 2, 1, 2}, Case{"fp4", "stable-spam", 1, 2, 2},
                      Case{"fp8", "adamw", 1, 2, 1}, Case{"nvfp4", "adamw", 2, 1, 1},
                      Case{"bf16", "stable-spam", 1, 1, 2}, Case{"int8", "adamw", 1, 1, 2}),
    [](const auto& test) {
        const Case& c = test.param;
        std::string name = c.recipe + "_" + c.optimizer + "_" + std::to_string(test.index);
        std::replace(name.begin(), name.end(), '-', '_');
        return name;
    });

TEST(TrainDeterminism, SnipRunsRepeatOnAnyNumberOfThreads) {
    TempFolder folder;
    Config a = tiny_config(folder, "snip");
    Config b = a, c = a;
    a.run.dir = folder / "a";
    b.run.dir = folder / "b";
    c.run.dir = folder / "c";
    a.run.threads = b.run.threads = 1;
    c.run.threads = 2;
    Recorder first, again, two;
    run(a, first);
    run(b, again);
    run(c, two);
    ASSERT_EQ(first.plans.size(), 3u);
    for (const Recorder* other : {&again, &two}) {
        EXPECT_EQ(first.losses(), other->losses());
        ASSERT_EQ(first.plans.size(), other->plans.size());
        for (std::size_t i = 0; i < first.plans.size(); ++i) {
            EXPECT_TRUE(first.plans[i].applied);
            EXPECT_EQ(first.plans[i].result.plan, other->plans[i].result.plan);
            EXPECT_EQ(first.plans[i].measured_at, static_cast<std::int64_t>(4 * i));
            EXPECT_EQ(first.plans[i].effective_at, static_cast<std::int64_t>(4 * i + 2));
        }
    }
    expect_same_checkpoint(checkpoint_of(a, 12), checkpoint_of(b, 12));
    expect_same_checkpoint(checkpoint_of(a, 12), checkpoint_of(c, 12));
}

TEST(TrainResumeChanges, ARunInFixedPrecisionGoesOnUnderSnip) {
    TempFolder folder;
    Config config = tiny_config(folder, "bf16");
    Recorder first, second;
    run(config, first, 5);
    config.precision.recipe = "snip";
    run(config, second);
    ASSERT_EQ(second.steps.size(), 7u);
    EXPECT_EQ(second.steps.front().step, 6);
    ASSERT_EQ(second.plans.size(), 1u);
    EXPECT_EQ(second.plans[0].measured_at, 8);
    EXPECT_EQ(second.plans[0].effective_at, 10);
}

// Checkpoints of fixed precision say nothing about the controller's position, nor did older ones of
// SNIP about iterations. Noise is addressed by iterations, which count skipped steps.
TEST(TrainResumeChanges, ACheckpointWithoutIterationsCountsThemFromTheOptimizer) {
    TempFolder folder;
    Config config = tiny_config(folder, "snip");
    Recorder whole, first, second;
    config.run.dir = folder / "straight";
    run(config, whole);
    config.run.dir = folder / "run";
    run(config, first, 5);
    const std::string checkpoint = checkpoint_of(config, 5);
    auto precision = nlohmann::json::parse(read_file(checkpoint + "/precision.json"));
    ASSERT_EQ(precision.erase("iteration"), 1u);
    io::Manifest manifest = io::read_manifest(checkpoint);
    manifest.files["precision.json"] = io::write_json(checkpoint + "/precision.json", precision);
    io::write_manifest(checkpoint, manifest);
    run(config, second);
    std::vector<double> losses = first.losses();
    for (const double loss : second.losses()) losses.push_back(loss);
    EXPECT_EQ(losses, whole.losses());
    ASSERT_EQ(second.plans.size(), 2u);
    EXPECT_EQ(second.plans[0].effective_at, 6);
    expect_same_checkpoint(checkpoint_of(config, 12),
                           folder / "straight/checkpoints/step_00000012");
}

TEST(TrainResumeChanges, AnotherModelIsRefusedWithoutATrace) {
    TempFolder folder;
    Config config = tiny_config(folder);
    Recorder recorder;
    run(config, recorder, 3);
    const auto before = snapshot(config.run.dir);
    config.model.layers = 3;
    const std::string message = error_of(ErrorCode::kData, [&] { run(config, recorder); });
    EXPECT_NE(message.find("layers is 2 there, 3"), std::string::npos) << message;
    config.model.layers = 2;
    config.optim.name = "stable-spam";
    error_of(ErrorCode::kData, [&] { run(config, recorder); });
    EXPECT_EQ(snapshot(config.run.dir), before);
}

TEST(TrainResumeChanges, ACheckpointOfAnotherFolderIsSavedInThisOneWhenStopped) {
    TempFolder folder;
    Config config = tiny_config(folder);
    Recorder recorder;
    run(config, recorder, 3);
    Config next = config;
    next.run.dir = folder / "next";
    next.checkpoint.resume = checkpoint_of(config, 3);
    Trainer trainer(next, recorder);
    EXPECT_TRUE(trainer.run(std::atomic<bool>{true}).interrupted);
    // Otherwise the next start with "auto" would begin at step 0.
    expect_same_checkpoint(checkpoint_of(next, 3), checkpoint_of(config, 3));
}

TEST(TrainResumeChanges, NeverRefusesAFolderThatHoldsARun) {
    TempFolder folder;
    Config config = tiny_config(folder);
    Recorder recorder;
    run(config, recorder, 3);
    const auto before = snapshot(config.run.dir);
    config.checkpoint.resume = "never";
    error_of(ErrorCode::kUsage, [&] { run(config, recorder); });
    EXPECT_EQ(snapshot(config.run.dir), before);
}

}  // namespace
}  // namespace subbyte::train
