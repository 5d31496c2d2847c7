// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Explanations: what has to change for a layer to move is checked by changing it.
#include "subbyte/plan/explain.h"

#include <gtest/gtest.h>

#include <cmath>

#include "subbyte/core/error.h"
#include "subbyte/plan/plan_task.h"
#include "subbyte/plan/sensitivity.h"
#include "tests/unit/plan_tables.h"

namespace subbyte::plan {
namespace {

LayerTable small_llama(int stages = 1) { return llama_table(2, 64, 172, 16, stages); }

PlannerOptions explain_options(double target, Granularity granularity = Granularity::kLayer) {
    PlannerOptions options;
    options.target = target;
    options.granularity = granularity;
    options.limits.gap = 0;
    return options;
}

// The choice for a unit when its cost under one option is raised or lowered.
int choice_after(const LayerTable& table, const ModelStatistics& statistics,
                 const PlannerOptions& options, std::size_t unit, std::size_t option,
                 double change) {
    PlanTask task = make_task(table, options);
    set_costs(task, table, statistics, options);
    task.units[unit].cost[option] += change;
    return solve_selection(to_problem(task, table, {}), options.limits).choice[unit];
}

TEST(Explain, AUnitMovesWhenItsCostChangesByTheFlip) {
    for (const auto& [granularity, stages] :
         {std::pair(Granularity::kLayer, 1), {Granularity::kLayer, 2}, {Granularity::kGemm, 2}}) {
        const LayerTable table = small_llama(stages);
        const ModelStatistics statistics = random_statistics(table, 11);
        for (const double target : {0.35, 0.7}) {
            const PlannerOptions options = explain_options(target, granularity);
            const Plan plan = make_plan(table, statistics, options).plan;
            const Explanation explained = explain_plan(plan, table, statistics, options);
            EXPECT_EQ(explained.objective, explained.best);
            ASSERT_EQ(explained.units.size(), granularity == Granularity::kLayer ? 14u : 42u);
            int finite = 0;
            for (std::size_t u = 0; u < explained.units.size(); ++u) {
                const ExplainedUnit& unit = explained.units[u];
                for (std::size_t r = 0; r < 2; ++r) {
                    const ExplainedOption& option = unit.options[r];
                    if (option.recipe == unit.planned) {
                        EXPECT_EQ(option.flip, 0);
                        continue;
                    }
                    if (!std::isfinite(option.flip)) continue;
                    ++finite;
                    EXPECT_GE(option.flip, 0);
                    const auto wanted = static_cast<int>(r);
                    const auto after = [&](double factor) {
                        return choice_after(table, statistics, options, u, r,
                                            -factor * option.flip - (factor > 1 ? 1e-12 : -1e-12));
                    };
                    EXPECT_NE(after(0.999), wanted) << unit.name << " " << option.recipe;
                    EXPECT_EQ(after(1.001), wanted) << unit.name << " " << option.recipe;
                }
            }
            EXPECT_GT(finite, 7);
        }
    }
}

TEST(Explain, OutOfReachIsInfinite) {
    const LayerTable table = small_llama();
    const ModelStatistics statistics = random_statistics(table, 1);
    const PlannerOptions options = explain_options(1.0);
    const Explanation explained =
        explain_plan(uniform_plan(table, "fp4"), table, statistics, options);
    for (const ExplainedUnit& unit : explained.units) {
        EXPECT_EQ(unit.planned, "fp4");
        EXPECT_TRUE(std::isinf(unit.options[0].flip)) << unit.name;
    }
}

TEST(Explain, APlanThatIsNotTheBestIsToldWhatWouldBeBetter) {
    const LayerTable table = small_llama();
    const ModelStatistics statistics = random_statistics(table, 3);
    PlannerOptions options = explain_options(0.5);
    options.method = "random";
    const Plan random = make_plan(table, statistics, options).plan;
    options.method = "snip";
    options.target = met_target(random, table, options);
    const Explanation explained = explain_plan(random, table, statistics, options);
    EXPECT_NEAR(explained.reached, explained.target, 1e-12);
    EXPECT_GT(explained.objective, explained.best);
    bool better = false;
    for (const ExplainedUnit& unit : explained.units) {
        for (const ExplainedOption& option : unit.options) better = better || option.flip < 0;
    }
    EXPECT_TRUE(better);
}

TEST(Explain, SharesAndRanksAddUp) {
    const LayerTable table = small_llama();
    const ModelStatistics statistics = random_statistics(table, 4);
    for (const Granularity granularity : {Granularity::kLayer, Granularity::kGemm}) {
        PlannerOptions options = explain_options(0.4);
        options.granularity = granularity;
        options.limits.gap = 1e-4;
        const Plan plan = make_plan(table, statistics, options).plan;
        const Explanation explained =
            explain_plan(plan, table, statistics, options,
                         [](const std::string& name) { return name.find(".1.") != name.npos; });
        double loss = 0, weight = 0, work = 0;
        std::vector<bool> ranks(explained.units.size());
        for (const ExplainedUnit& unit : explained.units) {
            loss += unit.loss_share;
            weight += unit.weight_share;
            work += unit.work;
            ranks.at(static_cast<std::size_t>(unit.rank) - 1) = true;
            EXPECT_EQ(std::isnan(unit.options[0].flip), unit.block == 0) << unit.name;
        }
        EXPECT_NEAR(loss, 1, 1e-12);
        EXPECT_NEAR(weight, 1, 1e-12);
        EXPECT_NEAR(work, 1, 1e-12);
        EXPECT_EQ(std::count(ranks.begin(), ranks.end(), true),
                  static_cast<std::ptrdiff_t>(ranks.size()));
    }
}

TEST(Explain, PlansThatAreNoChoiceAreRefused) {
    const LayerTable table = small_llama();
    const ModelStatistics statistics = random_statistics(table, 4);
    Plan plan = uniform_plan(table, "fp8");
    plan.layers["model.layers.1.mlp.up_proj"][2] = "fp4";
    EXPECT_THROW(explain_plan(plan, table, statistics, explain_options(0)), Error);
    EXPECT_THROW(explain_plan(uniform_plan(table, "int8"), table, statistics, explain_options(0)),
                 Error);
}

TEST(Sensitivity, SaysWhatTheStatisticsHold) {
    const LayerTable table = small_llama();
    ModelStatistics statistics = random_statistics(table, 5);
    EXPECT_EQ(measured_recipes(statistics), (std::vector<std::string>{"fp4", "fp8"}));
    PlannerOptions options;
    options.recipes = {"fp4", "bf16"};
    const auto layers = layer_sensitivities(statistics, options);
    ASSERT_EQ(layers.size(), 14u);
    double loss = 0, weight = 0;
    for (std::size_t l = 0; l < layers.size(); ++l) {
        const LayerStatistics& s = statistics.layers[l];
        const RecipeSensitivity& fp4 = layers[l].recipes[0];
        EXPECT_DOUBLE_EQ(fp4.ex, s.errors.at("fp4").ex / s.x);
        EXPECT_DOUBLE_EQ(fp4.eg, s.errors.at("fp4").eg / s.g);
        EXPECT_NEAR(fp4.damage, fp4.loss + 2 * fp4.weight, 1e-15);
        loss += fp4.loss_share;
        weight += fp4.weight_share;
        for (const LayerSensitivity& other : layers) {
            if (other.recipes[0].damage > fp4.damage) {
                EXPECT_LT(other.recipes[0].rank, fp4.rank);
            }
        }
        EXPECT_EQ(layers[l].recipes[1].damage, 0);
        EXPECT_EQ(layers[l].recipes[1].loss_share, 0);
    }
    EXPECT_NEAR(loss, 1, 1e-12);
    EXPECT_NEAR(weight, 1, 1e-12);
    statistics.layers[2].errors.erase("fp8");
    EXPECT_EQ(measured_recipes(statistics), (std::vector<std::string>{"fp4"}));
    statistics.layers[3] = {};  // not reached by data
    EXPECT_EQ(measured_recipes(statistics), (std::vector<std::string>{"fp4"}));
}

}  // namespace
}  // namespace subbyte::plan
