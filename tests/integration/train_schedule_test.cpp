// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// What a run does with its length: the learning-rate curve after a resume, runs that are finished,
// data that is too short.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "subbyte/data/tokenizer.h"
#include "subbyte/io/safetensors.h"
#include "subbyte/optim/lr_schedule.h"
#include "subbyte/train/inspect_run.h"
#include "tests/integration/train_util.h"

namespace subbyte::train {
namespace {

// The letter Z as a token.
const std::int64_t kZ = data::make_byte_tokenizer()->encode("Z").front();

// Cosine from 1e-3 to 1e-4 over 100 steps, stopped at 50.
Config cosine(const TempFolder& folder) {
    Config config = tiny_config(folder);
    config.model.layers = 1;
    config.train.steps = 100;
    config.train.eval_every = 0;
    config.train.batch_size = 1;
    config.optim.warmup_steps = {0, -1};
    config.optim.lr = 1e-3;
    config.optim.min_lr_ratio = 0.1;
    return config;
}

double planned(double step, double length) {
    return 1e-4 + 9e-4 * 0.5 * (1 + std::cos(std::numbers::pi * step / length));
}

class TrainCurve : public ::testing::Test {
protected:
    void SetUp() override {
        config = cosine(folder);
        Recorder first;
        run(config, first, 50);
        ASSERT_EQ(first.steps.size(), 50u);
        EXPECT_NEAR(first.steps[49].lr, planned(49, 100), 1e-12);
    }
    TempFolder folder;
    Config config;
    Recorder recorder;
};

TEST_F(TrainCurve, GoesOnUnchangedWithoutAWord) {
    run(config, recorder, 53);
    EXPECT_NEAR(recorder.steps[0].lr, 5.5e-4, 1e-12);
    EXPECT_EQ(recorder.messages.find("learning rate"), std::string::npos);
}

TEST_F(TrainCurve, StaysAsPlannedWhenTheRunIsMadeLonger) {
    config.train.steps = 200;
    run(config, recorder, 53);
    EXPECT_NEAR(recorder.steps[0].lr, 5.5e-4, 1e-12);
    EXPECT_NEAR(recorder.steps[1].lr, 5.36e-4, 1e-6);
    const std::string& text = recorder.messages;
    for (const char* part : {"100 steps", "200 steps", "5.500e-04", "8.682e-04", "keeping"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;  // and "resumed from"
    // After its end the curve stays at the minimum.
    config.checkpoint.every = 0;
    Recorder rest;
    run(config, rest, 104);
    EXPECT_EQ(rest.steps.back().lr, 1e-4);
}

TEST_F(TrainCurve, IsTheNewOneWhenItIsAskedFor) {
    config.train.steps = 200;
    config.optim.schedule_steps = 200;
    run(config, recorder, 53);
    EXPECT_NEAR(recorder.steps[0].lr, planned(50, 200), 1e-12);
    EXPECT_NE(recorder.messages.find("taking the new curve"), std::string::npos);
    Recorder again;
    run(config, again, 55);
    EXPECT_NEAR(again.steps[0].lr, planned(53, 200), 1e-12);
    EXPECT_EQ(again.messages.find("learning rate"), std::string::npos);
}

TEST_F(TrainCurve, AFinishedRunIsLeftAsItIs) {
    config.train.steps = 40;
    const auto before = snapshot(config.run.dir);
    const RunEnd end = run(config, recorder);
    EXPECT_EQ(end.step, 50);
    EXPECT_FALSE(end.interrupted);
    EXPECT_NE(recorder.messages.find("nothing to do: the run is at step 50, train.steps is 40"),
              std::string::npos)
        << recorder.messages;
    EXPECT_TRUE(recorder.steps.empty());
    EXPECT_TRUE(snapshot(config.run.dir) == before);
}

TEST(TrainWarmUp, EveryLengthGivesFiniteRatesThatReachThePeak) {
    for (const std::int64_t warmup : {0, 1, 4}) {
        TempFolder folder;
        Config config = tiny_config(folder);
        config.train.steps = 4;
        config.optim.warmup_steps = {warmup, -1};
        Recorder recorder;
        run(config, recorder);
        double highest = 0;
        for (const StepRecord& step : recorder.steps) {
            EXPECT_TRUE(std::isfinite(step.lr) && step.lr > 0);
            highest = std::max(highest, step.lr);
        }
        EXPECT_EQ(highest, 1e-3) << warmup;
    }
    TempFolder folder;
    Config config = tiny_config(folder);
    config.train.steps = 4;
    config.optim.warmup_steps = {5, -1};
    Recorder recorder;
    error_of(ErrorCode::kUsage, [&] { run(config, recorder); });
    EXPECT_FALSE(std::filesystem::exists(config.run.dir));
}

// The gradient of every batch with the letter Z in it is NaN: its embedding is. The schedule must
// count the steps that were applied, and those alone.
TEST(TrainWarmUp, SkippedStepsDoNotMoveTheLearningRate) {
    for (const char* optimizer : {"adamw", "stable-spam"}) {
        SCOPED_TRACE(optimizer);
        TempFolder folder;
        Config config = tiny_config(folder);
        config.train.steps = 1;
        config.optim.warmup_steps = {0, -1};
        Recorder recorder;
        run(config, recorder);
        const std::string model = folder / "model";
        std::filesystem::create_directory(model);
        std::filesystem::copy_file(checkpoint_of(config, 1) + "/config.json",
                                   model + "/config.json");
        io::NamedTensors tensors =
            io::SafetensorsFile::open(checkpoint_of(config, 1) + "/model.safetensors").load_all();
        for (auto& [name, tensor] : tensors) {
            if (name == "model.embed_tokens.weight") tensor[kZ].fill_(std::nan(""));
        }
        io::save_safetensors(model + "/model.safetensors", tensors);
        std::string text = made_up_text(8000);
        for (std::size_t i = 20; i < 7000; i += 40) text[i] = 'Z';
        write_file(folder / "text.txt", text);

        config.run.dir = folder / "skipping";
        config.model = Config::Model{};
        config.model.path = model;
        config.train.batch_size = 1;
        config.train.steps = 40;
        config.train.max_nonfinite = 40;
        config.optim.name = optimizer;
        config.optim.warmup_steps = {10, -1};
        config.optim.schedule_steps = 100;
        Recorder skipping;
        run(config, skipping);
        const optim::LrSchedule planned(
            {.peak = 1e-3, .min_ratio = 0.1, .warmup_steps = 10, .total_steps = 100});
        std::int64_t applied = 0, skipped_in_warmup = 0;
        for (const StepRecord& step : skipping.steps) {
            EXPECT_EQ(step.lr, planned.lr_at(applied)) << step.step;
            if (applied < 10 && !step.applied) ++skipped_in_warmup;
            applied += step.applied ? 1 : 0;
        }
        EXPECT_GE(skipped_in_warmup, 3);
        EXPECT_GT(applied, 10);  // and the warm-up was left
        EXPECT_EQ(skipping.steps.back().skipped, 40 - applied);
        const auto state =
            nlohmann::json::parse(read_file(checkpoint_of(config, 40) + "/trainer_state.json"));
        EXPECT_EQ(state.at("optimizer").at("steps"), applied);
    }
}

TEST(TrainData, NeedsOneWindowAndSaysHowMuchItFound) {
    TempFolder folder;
    Config config = tiny_config(folder);
    config.train.steps = 1;
    config.optim.warmup_steps = {0, -1};
    config.data.val_fraction = 0;
    config.train.eval_every = 0;
    Recorder recorder;
    // The end mark is a token too, so 15 bytes are 16 tokens, one short of 16 inputs and a target.
    for (const std::size_t bytes : {1u, 14u, 15u}) {
        write_file(folder / "text.txt", made_up_text(bytes));
        const std::string message = error_of(ErrorCode::kData, [&] { run(config, recorder); });
        EXPECT_NE(message.find(std::to_string(bytes + 1)), std::string::npos) << message;
        EXPECT_NE(message.find("17"), std::string::npos) << message;
    }
    write_file(folder / "text.txt", "");
    error_of(ErrorCode::kData, [&] { run(config, recorder); });
    EXPECT_FALSE(std::filesystem::exists(config.run.dir));
    for (const std::size_t bytes : {16u, 17u}) {
        config.run.dir = folder / ("run" + std::to_string(bytes));
        write_file(folder / "text.txt", made_up_text(bytes));
        Recorder good;
        run(config, good);
        ASSERT_EQ(good.steps.size(), 1u);
        EXPECT_TRUE(std::isfinite(good.steps[0].loss));
    }
}

TEST(TrainData, AShortValidationPartIsAnErrorAtTheStart) {
    TempFolder folder;
    Config config = tiny_config(folder);
    config.data.val_fraction = 0.001;  // 8 of 8000 bytes
    Recorder recorder;
    const std::string message = error_of(ErrorCode::kData, [&] { run(config, recorder); });
    EXPECT_NE(message.find("validation"), std::string::npos) << message;
    write_file(folder / "val.txt", "");
    config.data.val_path = {folder / "val.txt"};
    error_of(ErrorCode::kData, [&] { run(config, recorder); });
    EXPECT_TRUE(recorder.steps.empty());
    EXPECT_FALSE(std::filesystem::exists(config.run.dir));
}

TEST(TrainData, ARunWithoutValidationDataEndsWithACheckpoint) {
    TempFolder folder;
    Config config = tiny_config(folder);
    config.train.steps = 2;
    config.train.eval_every = 0;
    config.data.val_fraction = 0;
    Recorder recorder;
    EXPECT_EQ(run(config, recorder).step, 2);
    EXPECT_TRUE(recorder.evals.empty());
    EXPECT_TRUE(std::filesystem::exists(checkpoint_of(config, 2) + "/manifest.json"));
}

TEST(TrainData, WhatWasNeverEvaluatedHasNoValidationLoss) {
    TempFolder folder;
    Config config = tiny_config(folder);
    config.train.steps = 2;
    config.train.eval_every = 0;
    Recorder recorder;
    const RunEnd end = run(config, recorder);
    EXPECT_TRUE(recorder.evals.empty());
    EXPECT_FALSE(end.validation_loss);
    EXPECT_EQ(end.loss, recorder.steps.back().loss);
    const auto summary = nlohmann::json::parse(read_file(config.run.dir + "/summary.json"));
    EXPECT_TRUE(summary.at("validation_loss").is_null());
    EXPECT_TRUE(to_json(read_run(config.run.dir)).at("validation_loss").is_null());

    config.run.dir = folder / "evaluated";
    config.train.eval_every = 10;  // the end is evaluated
    const RunEnd evaluated = run(config, recorder);
    ASSERT_EQ(recorder.evals.size(), 1u);
    EXPECT_EQ(evaluated.validation_loss, recorder.evals[0].loss);
}

TEST(TrainData, GradAccumCutsTheBatchAndDoesNotMultiplyIt) {
    TempFolder folder;
    Config config = tiny_config(folder, "fp32");
    config.precision.head = "fp32";
    config.train.steps = 3;
    config.train.eval_batches = 3;
    Config cut = config;
    cut.run.dir = folder / "cut";
    cut.train.grad_accum = 2;
    Recorder whole, parts;
    run(config, whole);
    run(cut, parts);
    ASSERT_EQ(parts.steps.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(parts.steps[i].loss, whole.steps[i].loss, 1e-5 * whole.steps[i].loss);
        EXPECT_NEAR(parts.steps[i].grad_norm, whole.steps[i].grad_norm,
                    1e-4 * whole.steps[i].grad_norm);
    }
    EXPECT_EQ(parts.evals.back().targets, 3 * 4 * 16);
    EXPECT_EQ(whole.evals.back().targets, 3 * 4 * 16);
    cut.train.grad_accum = 3;
    error_of(ErrorCode::kUsage, [&] { run(cut, parts); });
}

}  // namespace
}  // namespace subbyte::train
