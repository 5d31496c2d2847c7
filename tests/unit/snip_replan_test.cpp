// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The decision between a new plan and the one in force, with damages set by hand.
#include "subbyte/snip/replan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "subbyte/core/error.h"
#include "subbyte/plan/plan_damage.h"
#include "tests/unit/plan_tables.h"

namespace subbyte::snip {
namespace {

using plan::LayerTable;
using plan::ModelStatistics;
using plan::Plan;
using plan::PlannerOptions;
using plan::PlanResult;

// Layers of equal work whose only damage is DL: |dX| |E_X| / (sqrt(T K) |loss|) = `fp4[layer]`
// under fp4 and a tenth of that under fp8.
ModelStatistics statistics_of(const std::map<std::string, double>& fp4) {
    ModelStatistics statistics;
    statistics.loss = 2;
    for (const auto& [name, damage] : fp4) {
        statistics.table.push_back(plan::make_layer(name, 4, 4, 4));
        plan::LayerStatistics s;
        s.t = s.k = s.n = 4;
        s.x = s.w = s.y = s.g = s.dx = s.dw = 1;
        s.errors["fp4"] = {.ex = damage * 8, .ew = 0, .eg = 0};
        s.errors["fp8"] = {.ex = damage * 0.8, .ew = 0, .eg = 0};
        statistics.layers.push_back(s);
    }
    return statistics;
}

Plan plan_with(const ModelStatistics& statistics, const std::string& fp4) {
    Plan plan = plan::uniform_plan(statistics.table, "fp8");
    for (const char name : fp4) plan.set(std::string(1, name), "fp4");
    return plan;
}

// Always answers with the same plan.
Planner answer(const ModelStatistics& statistics, const std::string& fp4) {
    return [=](const LayerTable&, const ModelStatistics&, const PlannerOptions& options) {
        PlanResult result;
        result.plan = plan_with(statistics, fp4);
        result.target = options.target;
        return result;
    };
}

TEST(PlanDamage, AddsUpTheLayersOfAPlan) {
    const ModelStatistics statistics = statistics_of({{"a", 0.1}, {"b", 0.2}});
    PlannerOptions options;
    options.loss_weight = 3;
    options.squared = false;
    const auto damage =
        plan::plan_damage(plan_with(statistics, "b"), statistics.table, statistics, options);
    EXPECT_NEAR(damage.loss, 0.01 + 0.2, 1e-12);
    EXPECT_NEAR(damage.total, 0.63, 1e-12);
    EXPECT_NEAR(damage.objective, 0.63, 1e-12);
    ASSERT_EQ(damage.layers.size(), 2u);
    EXPECT_NEAR(damage.layers[0], 0.03, 1e-12);
    EXPECT_NEAR(damage.layers[1], 0.6, 1e-12);
    EXPECT_NEAR(damage.efficiency(), 0.5, 1e-12);
    options.squared = true;
    EXPECT_NEAR(plan::plan_damage(plan_with(statistics, "b"), statistics.table, statistics, options)
                    .objective,
                std::hypot(0.03, 0.6), 1e-12);
    // fprop alone decides DL of a layer whose GEMMs differ.
    Plan mixed = plan_with(statistics, "");
    mixed.layers["b"] = {"fp8", "fp4", "bf16"};
    options.squared = false;
    const auto parts = plan::plan_damage(mixed, statistics.table, statistics, options);
    EXPECT_NEAR(parts.loss, 0.01 + 0.02, 1e-12);
    EXPECT_NEAR(parts.efficiency(), 0.5 / 3, 1e-12);
}

// What make_plan predicts of its own plans and what plan_damage says of them are the same numbers.
TEST(PlanDamage, AgreesWithThePlanner) {
    const LayerTable table = plan::llama_table(3, 64, 96, 32, 2);
    const ModelStatistics statistics = plan::random_statistics(table, 3);
    for (const auto granularity : {plan::Granularity::kLayer, plan::Granularity::kGemm}) {
        for (const double target : {0.0, 0.3, 0.7, 1.0}) {
            const PlannerOptions options{.target = target, .granularity = granularity};
            const PlanResult result = plan::make_plan(table, statistics, options);
            const auto damage = plan::plan_damage(result.plan, table, statistics, options);
            EXPECT_NEAR(damage.loss, result.predicted_loss, 1e-12);
            EXPECT_NEAR(damage.efficiency(), result.reached, 1e-12);
            EXPECT_EQ(damage.reached.size(), 2u);
            if (granularity == plan::Granularity::kLayer) {
                EXPECT_NEAR(damage.weight, result.predicted_weight, 1e-12);
                EXPECT_NEAR(damage.total, result.predicted, 1e-12);
            } else {  // the parts of a layer are summed, not their squares
                EXPECT_LT(damage.weight, result.predicted_weight);
                EXPECT_GT(damage.weight, result.predicted_weight / std::sqrt(3.0));
            }
        }
    }
}

TEST(Hysteresis, ANewPlanMustBeBetterByTheShareThatIsAskedFor) {
    // In force: a. The new plan has b instead: the roots of 0.96^2 + 0.1^2 and 1 + 0.096^2, a share
    // of 0.9608.
    const ModelStatistics statistics = statistics_of({{"a", 1.0}, {"b", 0.96}});
    for (const auto& [hysteresis, kept] : {std::pair(0.0, false), std::pair(0.038, false),
                                           std::pair(0.04, true), std::pair(0.05, true)}) {
        ReplanTask task{.statistics = statistics,
                        .planner = {.target = 0.5},
                        .damage_bound = {},
                        .hysteresis = hysteresis,
                        .in_force = plan_with(statistics, "a")};
        const ReplanResult decision = replan(task, answer(statistics, "b"));
        EXPECT_EQ(decision.keep, kept) << hysteresis;
        EXPECT_NEAR(decision.cost, std::hypot(0.96, 0.1), 1e-12);
        EXPECT_NEAR(decision.cost_in_force, hysteresis > 0 ? std::hypot(1, 0.096) : 0, 1e-12);
        ASSERT_EQ(decision.damage.size(), 2u);
        EXPECT_NEAR(decision.damage[0], kept ? 1.0 : 0.1, 1e-12);
        EXPECT_EQ(decision.result.notes.size(), kept ? 1u : 0u);
        if (!kept) continue;
        EXPECT_NE(
            decision.result.notes[0].find("predicted to cost 1.005 today, the new plan 0.9652"),
            std::string::npos)
            << decision.result.notes[0];
    }
}

TEST(Hysteresis, APlanThatMissesTheTargetGoesWhateverTheNewOneCosts) {
    const ModelStatistics statistics = statistics_of({{"a", 1.0}, {"b", 0.96}});
    ReplanTask task{.statistics = statistics,
                    .planner = {.target = 0.5},
                    .damage_bound = {},
                    .hysteresis = 0.05,
                    .in_force = plan_with(statistics, "a")};
    EXPECT_TRUE(replan(task, answer(statistics, "b")).keep);
    task.planner.target = 0.75;  // a alone is half of the work
    EXPECT_FALSE(replan(task, answer(statistics, "ab")).keep);
    // A target out of reach asks for what the new plan reaches, no more.
    task.planner.target = 0.9;
    EXPECT_TRUE(replan(task, answer(statistics, "b")).keep);
    // The first plan, and one of recipes that are no options any more, have no say.
    task.planner.target = 0.5;
    task.in_force.reset();
    EXPECT_FALSE(replan(task, answer(statistics, "b")).keep);
    task.in_force = plan::uniform_plan(statistics.table, "bf16");
    task.planner.target = 0;
    EXPECT_FALSE(replan(task, answer(statistics, "")).keep);
    task.in_force = plan::uniform_plan(statistics.table, "nvfp4");
    EXPECT_FALSE(replan(task, answer(statistics, "b")).keep);
}

TEST(Hysteresis, EveryStageMustReachItsPartOfTheTarget) {
    ModelStatistics statistics = statistics_of({{"a", 1.0}, {"b", 1.0}, {"c", 1.0}, {"d", 1.0}});
    statistics.table[2].stage = statistics.table[3].stage = 1;
    ReplanTask task{.statistics = statistics,
                    .planner = {.target = 0.5},
                    .damage_bound = {},
                    .hysteresis = 0.05,
                    .in_force = plan_with(statistics, "ac")};
    EXPECT_TRUE(replan(task, answer(statistics, "bd")).keep);
    task.in_force = plan_with(statistics, "ab");  // half of the work, all of it in the first stage
    EXPECT_FALSE(replan(task, answer(statistics, "bd")).keep);
}

// Shares of these four layers, a quarter each.
constexpr plan::Granularity kLayers = plan::Granularity::kLayer;

TEST(QualityHeld, TakesTheLargestShareUnderTheBound) {
    const ModelStatistics statistics =
        statistics_of({{"a", 0.01}, {"b", 0.02}, {"c", 0.04}, {"d", 0.08}});
    // All fp8: 0.015. With a, then b, c, d in fp4: 0.024, 0.042, 0.078, 0.15.
    const std::pair<double, double> cases[] = {{0.2, 1.0},  {0.15, 1.0},  {0.149, 0.75},
                                               {0.06, 0.5}, {0.03, 0.25}, {0.02, 0.0},
                                               {0.001, 0.0}};
    for (const auto& [bound, share] : cases) {
        ReplanTask task{.statistics = statistics,
                        .planner = {.target = 1.0, .granularity = kLayers},
                        .damage_bound = bound * (1 + 1e-12),
                        .hysteresis = 0,
                        .in_force = {}};
        const ReplanResult decision = replan(task, plan::make_plan);
        EXPECT_FALSE(decision.keep);
        EXPECT_NEAR(plan::fp4_share(decision.result.plan, statistics.table), share, 1e-12) << bound;
        ASSERT_FALSE(decision.result.notes.empty());
        EXPECT_EQ(decision.result.notes.back().find("no target holds") != std::string::npos,
                  bound < 0.015)
            << decision.result.notes.back();
    }
    // The upper bound of the target holds too.
    ReplanTask task{.statistics = statistics,
                    .planner = {.target = 0.5, .granularity = kLayers},
                    .damage_bound = 1.0,
                    .hysteresis = 0,
                    .in_force = {}};
    EXPECT_NEAR(plan::fp4_share(replan(task, plan::make_plan).result.plan, statistics.table), 0.5,
                1e-12);
}

TEST(QualityHeld, TheShareFallsByItselfWhenTheSameLayersHurtMore) {
    ReplanTask task{.statistics = statistics_of({{"a", 0.01}, {"b", 0.02}, {"c", 0.04}}),
                    .planner = {.target = 1.0, .granularity = kLayers},
                    .damage_bound = 0.08,
                    .hysteresis = 0.05,
                    .in_force = {}};
    const ReplanResult early = replan(task, plan::make_plan);
    EXPECT_NEAR(plan::fp4_share(early.result.plan, task.statistics.table), 1.0, 1e-12);
    task.statistics = statistics_of({{"a", 0.02}, {"b", 0.04}, {"c", 0.08}});
    task.in_force = early.result.plan;
    const ReplanResult late = replan(task, plan::make_plan);
    EXPECT_FALSE(late.keep);  // the old plan reaches any target, but breaks the bound
    EXPECT_NEAR(plan::fp4_share(late.result.plan, task.statistics.table), 2.0 / 3, 1e-12);
}

TEST(Replan, WithoutASolutionThePlanInForceStays) {
    const ModelStatistics statistics = statistics_of({{"a", 1.0}});
    ReplanTask task{.statistics = statistics,
                    .planner = {.target = 0.5},
                    .damage_bound = {},
                    .hysteresis = 0.05,
                    .in_force = plan_with(statistics, "a")};
    const ReplanResult decision = replan(task, [](const auto&, const auto&, const auto&) {
        PlanResult result;
        result.status = plan::SelectionStatus::kNoSolution;
        return result;
    });
    EXPECT_TRUE(decision.keep);
    EXPECT_FALSE(decision.result.usable());
}

}  // namespace
}  // namespace subbyte::snip
