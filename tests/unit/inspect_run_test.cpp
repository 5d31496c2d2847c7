// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/inspect_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "tests/temp_folder.h"

namespace subbyte::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class InspectRun : public ::testing::Test {
protected:
    InspectRun() {
        fs::create_directories(folder_ / "plans");
        add({{"type", "run"},
             {"model", "llama-9m"},
             {"precision", "snip"},
             {"optimizer", "adamw"},
             {"parameters", 1000},
             {"layers", 15},
             {"total_steps", 10}});
    }

    void add(const json& record) { log_ += record.dump() + "\n"; }
    void add_step(int step, double seconds, double tokens, json loss = 4.0) {
        add({{"type", "step"},
             {"step", step},
             {"total", 10},
             {"loss", loss},
             {"seconds", seconds},
             {"tokens_per_second", tokens},
             {"fp4_share", 0.5},
             {"bits", 6.0},
             {"applied", true}});
    }
    void add_plan(int step, double seconds) {
        add({{"type", "plan"},
             {"step", step},
             {"applied", true},
             {"changed_slots", 6},
             {"efficiency", "fp4-share"},
             {"target", 0.5},
             {"reached", 0.52},
             {"statistics_seconds", seconds},
             {"probe_seconds", 2 * seconds},
             {"wait_seconds", seconds},
             {"solve_seconds", 5 * seconds}});
    }
    void write(const std::string& name, const std::string& text) { folder_.write(name, text); }
    RunView read() {
        write("log.jsonl", log_);
        return read_run(folder_.path().string());
    }

    TempFolder folder_;
    std::string log_;
};

TEST(Median, IsTheMiddle) {
    EXPECT_FALSE(median({}));
    EXPECT_EQ(median({3}), 3);
    EXPECT_EQ(median({9, 1, 4}), 4);
    EXPECT_EQ(median({1, 10, 2, 4}), 3);
}

TEST_F(InspectRun, OverheadIsThatOfTheStepsInForce) {
    for (int step = 1; step <= 8; ++step) {
        if (step == 3 || step == 6) add_plan(step, 0.25);  // 1 s each
        add_step(step, step == 2 ? 3.0 : step == 8 ? 2.0 : 1.0, 100.0 * step);
    }
    const RunView run = read();
    EXPECT_DOUBLE_EQ(run.train_seconds, 11);
    EXPECT_EQ(run.median_step_seconds, 1.0);
    EXPECT_EQ(run.tokens_per_second, 450);
    EXPECT_EQ(run.planning.updates, 2);
    EXPECT_DOUBLE_EQ(run.planning.seconds, 2);
    EXPECT_DOUBLE_EQ(run.planning.solve_seconds, 2.5);  // beside the training: costs it nothing
    EXPECT_DOUBLE_EQ(run.planning.share_of_training, 2.0 / 9.0);
    EXPECT_DOUBLE_EQ(run.planning.step_seconds, 9.0 / 8);
    EXPECT_DOUBLE_EQ(run.planning.share_at_500, 1.0 / (500 * 9.0 / 8));
    EXPECT_DOUBLE_EQ(run.planning.statistics_seconds, 1.5);
    EXPECT_DOUBLE_EQ(run.planning.statistics_share, 1.5 / 9.0);
    EXPECT_DOUBLE_EQ(run.planning.statistics_share_at_500, 0.75 / (500 * 9.0 / 8));
    EXPECT_EQ(run.slots, 45);
    EXPECT_EQ(run.step, 8);
    EXPECT_EQ(run.state, "not finished");
}

TEST_F(InspectRun, WhatAResumeTookBackDoesNotCount) {
    add_step(1, 1, 100);
    add_step(2, 50, 1);
    add_plan(2, 100);
    add({{"type", "eval"}, {"step", 2}, {"loss", 9.0}});
    add({{"type", "resume"}, {"from_step", 1}});
    add_step(2, 1, 100, 3.5);
    add({{"type", "eval"}, {"step", 2}, {"loss", 3.0}});
    add({{"type", "end"}, {"step", 2}, {"interrupted", true}, {"peak_memory_bytes", 1e6}});
    const RunView run = read();
    EXPECT_DOUBLE_EQ(run.train_seconds, 2);
    EXPECT_TRUE(run.plans.empty());
    EXPECT_EQ(run.planning.updates, 0);
    ASSERT_EQ(run.evaluations.size(), 1u);
    EXPECT_EQ(run.validation_loss(), 3.0);
    EXPECT_EQ(run.loss, 3.5);
    EXPECT_EQ(run.state, "interrupted");
    EXPECT_EQ(run.peak_memory_bytes, 1e6);
}

TEST_F(InspectRun, PlanComesFromTheNewestPlanFileWhenTheRunHasNotEnded) {
    add_plan(3, 0.1);
    add_plan(6, 0.1);
    write("plans/step_00000003.json",
          R"({"plan": {"version": 1, "method": "snip", "fallback": "bf16",
              "layers": {"model.layers.0.mlp.up_proj": "fp4"}}})");
    const RunView run = read();
    EXPECT_EQ(run.plan.recipe("model.layers.0.mlp.up_proj", plan::Slot::kFprop), "fp4");
    ASSERT_EQ(run.table.size(), 1u);
    EXPECT_EQ(run.table[0].type, "up_proj");
    EXPECT_FALSE(run.notices.empty());
}

TEST_F(InspectRun, TornAndLossyLogsAreNoticedNotFatal) {
    add_step(1, 1, 100, nullptr);
    add({{"type", "eval"}, {"step", 1}, {"loss", nullptr}});
    log_ += R"({"type": "step", "st)";
    const RunView run = read();
    EXPECT_FALSE(run.loss);
    EXPECT_FALSE(run.validation_loss());
    ASSERT_FALSE(run.notices.empty());
    EXPECT_NE(run.notices[0].find("not complete"), std::string::npos);
}

TEST_F(InspectRun, DamagedFilesAreErrorsWithTheirPlace) {
    const auto message = [&] {
        try {
            read();
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kData);
            return std::string(error.what());
        }
        return std::string("no error");
    };
    EXPECT_THROW(read_run((folder_ / "nowhere").string()), Error);
    EXPECT_THROW(read_run(folder_.path().string()), Error);  // no log
    add({{"type", "step"}, {"step", 1}});
    EXPECT_NE(message().find("line 2"), std::string::npos) << message();
}

TEST_F(InspectRun, ComparisonIsRelativeToTheOtherRun) {
    RunView first, second;
    first.evaluations = {{.step = 1, .loss = 5.0}, {.step = 2, .loss = 3.03}};
    second.evaluations = {{.step = 2, .loss = 3.0}, {.step = 3, .loss = {}}};
    first.tokens_per_second = 200;
    const std::vector<ComparedNumber> numbers = compare_runs(first, second);
    EXPECT_EQ(numbers[0].name, "validation loss");
    EXPECT_NEAR(*numbers[0].difference_percent(), 1.0, 1e-12);
    EXPECT_FALSE(numbers[1].difference_percent());
    EXPECT_TRUE(to_json(numbers)[1]["second"].is_null());
}

}  // namespace
}  // namespace subbyte::train
