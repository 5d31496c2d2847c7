// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/schedule.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "subbyte/core/error.h"
#include "tests/error_of.h"

namespace subbyte::plan {
namespace {

// Warm-up 1000 steps, 0.3 and 0.1 more every 5000 steps up to 0.8: the schedule of the SNIP
// article.
PlanSchedule article() {
    return {.initial_target = 0.3,
            .target_increment = 0.1,
            .max_target = 0.8,
            .increment_every = 5000,
            .update_interval = 100,
            .warmup_steps = 1000,
            .freeze_fraction = 0.1,
            .total_steps = 50000,
            .swap_delay = 5};
}

TEST(Schedule, TargetGrowsInStepsUpToItsCap) {
    const PlanSchedule schedule = article();
    schedule.check();
    const std::pair<std::int64_t, double> table[] = {
        {0, 0.0},     {999, 0.0},   {1000, 0.3},  {5999, 0.3},  {6000, 0.4},
        {10999, 0.4}, {11000, 0.5}, {16000, 0.6}, {21000, 0.7}, {25999, 0.7},
        {26000, 0.8}, {31000, 0.8}, {44999, 0.8}, {49999, 0.8}};
    for (const auto& [step, target] : table) {
        EXPECT_NEAR(schedule.target_at(step), target, 1e-15) << step;
    }
}

TEST(Schedule, ConstantAndQualityHeldLookAtOneNumber) {
    PlanSchedule schedule = article();
    schedule.target = TargetSchedule::kConstant;
    for (const std::int64_t step : {1000, 26000, 49999}) {
        EXPECT_EQ(schedule.target_at(step), 0.3) << step;
    }
    schedule.target = TargetSchedule::kQualityHeld;
    for (const std::int64_t step : {1000, 26000, 49999}) {
        EXPECT_EQ(schedule.target_at(step), 0.8) << step;
    }
    EXPECT_EQ(schedule.target_at(999), 0.0);
}

TEST(Schedule, NamesReadBack) {
    for (const std::string& name : schedule_names()) {
        EXPECT_EQ(schedule_name(schedule_from_name(name)), name);
    }
    const std::string text = error_of(ErrorCode::kUsage, [] { schedule_from_name("articel"); });
    EXPECT_NE(text.find("article"), std::string::npos) << text;
}

TEST(Schedule, AFrozenPlanIsNeverMeasuredFor) {
    PlanSchedule schedule = article();
    schedule.never = true;
    for (std::int64_t step = 0; step < 50000; ++step) ASSERT_FALSE(schedule.collects_at(step));
}

TEST(Schedule, TargetStaysWhereTheFreezeFindsIt) {
    PlanSchedule schedule = article();
    schedule.total_steps = 12000;  // frozen from 10800 on; 11000 would raise to 0.5
    EXPECT_EQ(schedule.freeze_start(), 10800);
    EXPECT_NEAR(schedule.target_at(10799), 0.4, 1e-15);
    EXPECT_NEAR(schedule.target_at(11999), 0.4, 1e-15);
}

TEST(Schedule, CollectsEveryIntervalBetweenWarmUpAndFreeze) {
    PlanSchedule schedule = article();
    schedule.total_steps = 1500;  // frozen from 1350 on
    std::vector<std::int64_t> collected;
    for (std::int64_t step = 0; step < 1500; ++step) {
        if (schedule.collects_at(step)) collected.push_back(step);
    }
    EXPECT_EQ(collected, (std::vector<std::int64_t>{1000, 1100, 1200, 1300}));
    // A plan of step 1300 would take effect at 1350 or later: not collected.
    schedule.swap_delay = 50;
    EXPECT_FALSE(schedule.collects_at(1300));
    EXPECT_TRUE(schedule.collects_at(1200));
    schedule.swap_delay = 49;
    EXPECT_TRUE(schedule.collects_at(1300));
}

TEST(Schedule, FreezesTheLastTenthExactly) {
    for (const std::int64_t total : {10, 100, 300, 1000, 7000, 100000}) {
        PlanSchedule schedule;
        schedule.total_steps = total;
        EXPECT_EQ(schedule.freeze_start(), total - total / 10) << total;
        EXPECT_FALSE(schedule.frozen_at(total - total / 10 - 1));
        EXPECT_TRUE(schedule.frozen_at(total - total / 10));
    }
    PlanSchedule schedule;
    schedule.total_steps = 25;  // a part of a step is not frozen
    EXPECT_EQ(schedule.freeze_start(), 23);
    schedule.freeze_fraction = 0;
    EXPECT_FALSE(schedule.frozen_at(24));
    schedule.freeze_fraction = 1;
    EXPECT_TRUE(schedule.frozen_at(0));
    EXPECT_FALSE(schedule.collects_at(0));
}

TEST(Schedule, UnknownLengthNeverFreezes) {
    PlanSchedule schedule;
    schedule.total_steps = 0;
    EXPECT_FALSE(schedule.frozen_at(1'000'000'000));
    EXPECT_TRUE(schedule.collects_at(1'000'000'000));
}

TEST(Schedule, BadFieldsAreNamed) {
    const auto complaint = [](const std::function<void(PlanSchedule&)>& spoil) -> std::string {
        PlanSchedule schedule = article();
        spoil(schedule);
        const std::string text = refusal(ErrorCode::kUsage, [&] { schedule.check(); });
        EXPECT_FALSE(text.ends_with("\n")) << "no hint: " << text;
        return text;
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    using S = PlanSchedule;
    const std::pair<std::string, std::function<void(S&)>> cases[] = {
        {"initial_target", [](S& s) { s.initial_target = -0.1; }},
        {"initial_target", [=](S& s) { s.initial_target = nan; }},
        {"max_target", [](S& s) { s.max_target = 1.1; }},
        {"max_target", [](S& s) { s.max_target = 0.2; }},
        {"target_increment", [](S& s) { s.target_increment = -0.1; }},
        {"increment_every", [](S& s) { s.increment_every = 0; }},
        {"update_interval", [](S& s) { s.update_interval = 0; }},
        {"warmup_steps", [](S& s) { s.warmup_steps = -1; }},
        {"freeze_fraction", [](S& s) { s.freeze_fraction = 1.5; }},
        {"total_steps", [](S& s) { s.total_steps = -1; }},
        {"swap_delay", [](S& s) { s.swap_delay = 0; }},
        {"swap_delay", [](S& s) { s.swap_delay = 101; }}};
    for (const auto& [field, spoil] : cases) {
        EXPECT_NE(complaint(spoil).find(field), std::string::npos) << field;
    }
    EXPECT_EQ(complaint([](S&) {}), "accepted");
}

}  // namespace
}  // namespace subbyte::plan
