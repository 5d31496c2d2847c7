// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Slots that a rule pins: the plan gives them what the rule says, chooses the rest of the layer,
// does not count their work, and counts their damage with that of the others.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/plan/cost_model.h"
#include "subbyte/plan/plan_damage.h"
#include "subbyte/plan/plan_task.h"
#include "tests/error_of.h"
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

double square(double x) { return x * x; }

// DW of a layer whose slots have these recipes, straight from the formulas of divergence.h.
double weight_by_hand(const ModelStatistics& statistics, std::size_t l, const Recipes& recipes) {
    const LayerStatistics& s = statistics.layers[l];
    const auto error = [&](std::size_t slot, double LayerStatistics::Errors::*part) {
        const auto found = s.errors.find(recipes[slot]);
        return found == s.errors.end() ? 0.0 : found->second.*part;
    };
    using E = LayerStatistics::Errors;
    const double forward = (square(error(0, &E::ex) * s.w) + square(s.x * error(0, &E::ew))) / s.k;
    const double backward = (square(error(1, &E::eg) * s.w) + square(s.g * error(1, &E::ew))) / s.n;
    const double direct = (square(error(2, &E::eg) * s.x) + square(s.g * error(2, &E::ex))) / s.t;
    double sum = 0;
    for (std::size_t k = 0; k < statistics.layers.size(); ++k) {
        const LayerStatistics& other = statistics.layers[k];
        double variance = square(s.forward[k]) * forward;
        if (k < l) variance += square(s.backward[k]) * backward;
        if (k == l) variance += direct;
        sum += other.jacobian / std::sqrt(other.update_numel) * std::sqrt(variance) / other.w;
    }
    return sum / double(statistics.layers.size());
}

// The cheapest choice, by trying all of them. The errors of a pinned slot are in every one.
TEST(Pins, TheOptimumIsThatOfAllChoices) {
    const LayerTable table = pinned_table();
    for (unsigned seed = 3; seed < 13; ++seed) {
        const ModelStatistics statistics = random_statistics(table, seed);
        PlannerOptions options = options_of(0.5, Granularity::kLayer, "snip");
        options.squared = seed % 2 == 0;
        const auto damage_by_hand = [&](std::size_t l, const std::string& recipe) {
            Recipes slots{recipe, recipe, recipe};
            if (l == 0) slots = {"fp8", recipe, "fp8"};
            if (l == 6) slots = {recipe, "bf16", recipe};
            const double loss =
                loss_change(statistics.layers[l], "", slots[0], options.estimator).size() /
                statistics.loss;
            return loss + 2 * weight_by_hand(statistics, l, slots);
        };
        const std::vector<double> shares = candidate_shares(table);
        double best = std::numeric_limits<double>::infinity();
        for (unsigned choice = 0; choice < 128; ++choice) {
            double cost = 0, reached = 0;
            for (std::size_t l = 0; l < 7; ++l) {
                const std::size_t r = choice >> l & 1;
                const double damage = damage_by_hand(l, options.recipes[r]);
                cost += options.squared ? square(damage) : damage;
                reached += r == 1 ? shares[l] : 0;
            }
            if (reached >= 0.5 * (1 - 1e-9)) best = std::min(best, cost);
        }
        const PlanResult result = make_plan(table, statistics, options);
        EXPECT_NEAR(result.objective, best, 1e-9 * best);
        const PlanDamage damage = plan_damage(result.plan, table, statistics, options);
        EXPECT_NEAR(result.predicted, damage.total, 1e-9 * damage.total);
        const double whole = options.squared ? std::sqrt(best) : best;
        EXPECT_NEAR(damage.objective, whole, 1e-9 * whole);
        EXPECT_NEAR(damage.efficiency(), result.reached, 1e-12);
    }
}

// A pinned slot is never free: its errors are in the damage of the whole plan too.
TEST(Pins, OfTheWholePlanAddUpInSquares) {
    ModelStatistics statistics = random_statistics(pinned_table(), 4);
    for (std::size_t l = 1; l < 8; ++l) statistics.table[l].candidate = false;
    const Plan plan = uniform_plan(statistics.table, "bf16");
    EXPECT_NEAR(estimate_plan_divergence(statistics, plan, LossEstimator::kNormOnly).weight,
                weight_by_hand(statistics, 0, {"fp8", "bf16", "fp8"}), 1e-15);
}

TEST(Pins, TheirRecipesMustHaveBeenMeasured) {
    LayerTable table = pinned_table();
    const ModelStatistics statistics = random_statistics(table, 3);
    table[6].pinned[1] = "int8";
    const std::string message = error_of(ErrorCode::kUsage, [&] {
        make_plan(table, statistics, options_of(0.5, Granularity::kLayer, "snip"));
    });
    EXPECT_NE(message.find("no errors for recipe 'int8'"), std::string::npos) << message;
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
