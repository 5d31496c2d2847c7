// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Slots that a rule pins: the plan gives them what the rule says, chooses the rest of the layer,
// and counts neither their work nor their damage.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/plan/cost_model.h"
#include "subbyte/plan/plan_damage.h"
#include "subbyte/plan/plan_task.h"
#include "tests/unit/plan_tables.h"

namespace subbyte::plan {
namespace {

using Recipes = std::array<std::string, 3>;

// One block whose down_proj has dgrad in BF16 and whose q_proj has fprop and wgrad in FP8.
LayerTable pinned_table() {
    LayerTable table = llama_table(1, 64, 172, 16);
    table[0].pinned = {"fp8", "", "fp8"};
    table[6].pinned = {"", "bf16", ""};
    return table;
}

PlannerOptions options_of(double target, Granularity granularity, const std::string& method) {
    PlannerOptions options;
    options.target = target;
    options.granularity = granularity;
    options.method = method;
    return options;
}

TEST(Pins, EveryMethodKeepsThemAndReachesTheTargetWithTheRest) {
    const LayerTable table = pinned_table();
    const ModelStatistics statistics = random_statistics(table, 1);
    for (const std::string& method : planner_methods()) {
        for (const Granularity granularity : {Granularity::kLayer, Granularity::kGemm}) {
            for (const double target : {0.0, 0.4, 1.0}) {
                SCOPED_TRACE(method + " " + std::to_string(target));
                const PlanResult result =
                    make_plan(table, statistics, options_of(target, granularity, method));
                EXPECT_FALSE(result.relaxed);
                EXPECT_GE(result.reached, target * (1 - 1e-9));
                EXPECT_NEAR(result.reached, fp4_share(result.plan, table), 1e-12);
                const Recipes &q = result.plan.layers.at(table[0].name),
                              &down = result.plan.layers.at(table[6].name);
                EXPECT_EQ(q[0], "fp8");
                EXPECT_EQ(q[2], "fp8");
                EXPECT_EQ(down[1], "bf16");
                if (target == 1.0) {
                    EXPECT_EQ(q[1], "fp4");
                    EXPECT_EQ(down, (Recipes{"fp4", "bf16", "fp4"}));
                    EXPECT_DOUBLE_EQ(effective_bits(result.plan, table), 4);
                }
            }
        }
    }
}

TEST(Pins, AreNoUnitsAndNoWork) {
    const LayerTable table = pinned_table();
    const PlanTask gemms = make_task(table, options_of(0.5, Granularity::kGemm, "snip"));
    EXPECT_EQ(gemms.units.size(), 7u * 3 - 3);
    const PlanTask layers = make_task(table, options_of(0.5, Granularity::kLayer, "snip"));
    ASSERT_EQ(layers.units.size(), 7u);
    EXPECT_EQ(layers.units[0].gemms.size(), 1u);
    EXPECT_EQ(layers.units[6].gemms.size(), 2u);
    double work = 0;
    for (const PlanUnit& unit : layers.units) work += unit.work;
    EXPECT_NEAR(work, 1, 1e-12);
    EXPECT_NEAR(layers.units[6].work / layers.units[5].work, 2.0 / 3, 1e-12);

    const Cost cost = estimate_cost(uniform_plan(table, "fp4"), table).total;
    EXPECT_NEAR(cost.candidate_speedup(), 4, 1e-12);
}

// The cheapest choice per layer, by trying all, from the parts of the free slots alone.
TEST(Pins, TheOptimumCountsTheFreeSlotsOnly) {
    const LayerTable table = pinned_table();
    const ModelStatistics statistics = random_statistics(table, 3);
    const PlannerOptions options = options_of(0.5, Granularity::kLayer, "snip");
    const auto whole = estimate_divergence(statistics, options.recipes, options.estimator);
    const auto parts = estimate_slot_divergence(statistics, options.recipes, options.estimator);
    const std::vector<double> shares = candidate_shares(table);
    double best = std::numeric_limits<double>::infinity();
    for (unsigned choice = 0; choice < 128; ++choice) {
        double cost = 0, reached = 0;
        for (std::size_t l = 0; l < 7; ++l) {
            const std::size_t r = choice >> l & 1;
            double loss = whole[l][r].loss, weight = whole[l][r].weight;
            if (l == 0) loss = 0, weight = parts[l][r][1].weight;
            if (l == 6) weight = std::hypot(parts[l][r][0].weight, parts[l][r][2].weight);
            cost += loss + 2 * weight;
            reached += r == 1 ? shares[l] : 0;
        }
        if (reached >= 0.5 * (1 - 1e-9)) best = std::min(best, cost);
    }
    const PlanResult result = make_plan(table, statistics, options);
    EXPECT_NEAR(result.objective, best, 1e-9 * best);
    const PlanDamage damage = plan_damage(result.plan, table, statistics, options);
    EXPECT_NEAR(damage.objective, result.objective, 1e-9 * best);
    EXPECT_NEAR(damage.efficiency(), result.reached, 1e-12);
    // The recipe of a pinned slot need not have been measured.
    LayerTable other = table;
    other[6].pinned[1] = "int8";
    const PlanResult again = make_plan(other, statistics, options);
    EXPECT_EQ(again.objective, result.objective);
    EXPECT_EQ(plan_damage(again.plan, other, statistics, options).objective, damage.objective);
    ModelStatistics same = statistics;
    same.table = other;
    EXPECT_EQ(estimate_plan_divergence(same, again.plan, options.estimator).loss,
              estimate_plan_divergence(statistics, result.plan, options.estimator).loss);
}

TEST(Pins, LocalErrorsCountTheFreeSlotsOnly) {
    const LayerTable table = pinned_table();
    const ModelStatistics statistics = random_statistics(table, 4);
    const PlannerOptions options = options_of(0.5, Granularity::kLayer, "min-abs-err");
    PlanTask task = make_task(table, options);
    set_costs(task, table, statistics, options);
    const auto& q = statistics.layers[0].errors.at("fp4");
    const auto& down = statistics.layers[6].errors.at("fp4");
    EXPECT_DOUBLE_EQ(task.units[0].cost[1], (q.eg + q.ew) / 2);
    EXPECT_DOUBLE_EQ(task.units[6].cost[1], down.ex + (down.ew + down.eg) / 2);
}

TEST(Pins, StatisticsFilesKeepThem) {
    ModelStatistics statistics = random_statistics(pinned_table(), 5);
    nlohmann::json json = to_json(statistics);
    const ModelStatistics back = statistics_from_json(json);
    for (std::size_t l = 0; l < back.table.size(); ++l) {
        EXPECT_EQ(back.table[l].pinned, statistics.table[l].pinned) << l;
    }
    for (const nlohmann::json& bad : {nlohmann::json{"fp9", "", ""}, nlohmann::json{"fp8"}}) {
        json["layers"][0]["pinned"] = bad;
        EXPECT_THROW(statistics_from_json(json), Error);
    }
}

}  // namespace
}  // namespace subbyte::plan
