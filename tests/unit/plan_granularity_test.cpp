// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// What is chosen for: layers, GEMMs, coupled ones; compared with trying every plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "subbyte/core/error.h"
#include "subbyte/plan/plan_task.h"
#include "tests/error_of.h"
#include "tests/unit/plan_tables.h"

namespace subbyte::plan {
namespace {

// Three layers of one block: 9 GEMMs.
LayerTable small_table() {
    return {make_layer("m.0.q_proj", 64, 64, 32), make_layer("m.0.k_proj", 64, 16, 32),
            make_layer("m.0.up_proj", 64, 160, 32)};
}

PlannerOptions gemm_options(double target) {
    PlannerOptions options;
    options.target = target;
    options.granularity = Granularity::kGemm;
    return options;
}

struct Best {
    double objective = std::numeric_limits<double>::infinity();
    Plan plan;
};

// The cheapest of all plans that give every GEMM one of the recipes, reach the target in every
// stage and keep to `allowed`. The cost of a plan: sum over its GEMMs of Q or Q^2.
Best try_all(const LayerTable& table, const ModelStatistics& statistics,
             const PlannerOptions& options, const std::function<bool(const Plan&)>& allowed) {
    const auto parts = estimate_slot_divergence(statistics, options.recipes, options.estimator);
    const std::size_t gemms = table.size() * 3;
    std::vector<std::size_t> choice(gemms, 0);
    Best best;
    while (true) {
        Plan plan;
        double objective = 0;
        for (std::size_t i = 0; i < gemms; ++i) {
            plan.layers[table[i / 3].name][i % 3] = options.recipes[choice[i]];
            const Divergence& d = parts[i / 3][choice[i]][i % 3];
            const double q = options.loss_weight * d.loss + options.weight_weight * d.weight;
            objective += options.squared ? q * q : q;
        }
        bool reached = true;
        for (int stage = 0; stage < stage_count(table); ++stage) {
            LayerTable part;
            for (const LayerInfo& layer : table) {
                if (layer.stage == stage) part.push_back(layer);
            }
            reached = reached && fp4_share(plan, part) >= options.target * (1 - 1e-9);
        }
        if (reached && objective < best.objective && allowed(plan)) best = {objective, plan};
        std::size_t i = 0;
        while (i < gemms && ++choice[i] == options.recipes.size()) choice[i++] = 0;
        if (i == gemms) return best;
    }
}

TEST(Granularity, EveryGemmHasItsOwnRecipe) {
    LayerTable table = small_table();
    int mixed = 0;
    for (unsigned seed = 1; seed <= 6; ++seed) {
        table[2].stage = seed > 3 ? 1 : 0;
        const ModelStatistics statistics = random_statistics(table, seed);
        for (const double target : {0.0, 0.4, 0.55, 1.0}) {
            for (const bool squared : {false, true}) {
                PlannerOptions options = gemm_options(target);
                options.squared = squared;
                const PlanResult result = make_plan(table, statistics, options);
                const Best best =
                    try_all(table, statistics, options, [](const Plan&) { return true; });
                EXPECT_NEAR(result.objective, best.objective, 2e-6 * best.objective);
                EXPECT_NEAR(result.reached, fp4_share(result.plan, table), 1e-12);
                EXPECT_EQ(result.status, SelectionStatus::kOptimal);
                for (const LayerInfo& layer : table) {
                    mixed += recipes_text(result.plan, layer.name).find('/') != std::string::npos;
                }
            }
        }
    }
    EXPECT_GT(mixed, 10);
}

TEST(Granularity, CoupledOnesGetTheSameRecipe) {
    const LayerTable table = small_table();
    const auto same = [](const Plan& plan, const std::string& a, Slot s, const std::string& b,
                         Slot t) {
        return plan.recipe("m.0." + a, s) == plan.recipe("m.0." + b, t);
    };
    const auto layers_coupled = [&](const Plan& plan) {
        return std::all_of(kSlots.begin(), kSlots.end(),
                           [&](Slot s) { return same(plan, "q_proj", s, "k_proj", s); });
    };
    const auto slots_coupled = [&](const Plan& plan) {
        for (const char* layer : {"q_proj", "k_proj", "up_proj"}) {
            if (!same(plan, layer, Slot::kDgrad, layer, Slot::kWgrad)) return false;
        }
        return true;
    };
    for (unsigned seed = 1; seed <= 4; ++seed) {
        const ModelStatistics statistics = random_statistics(table, seed);
        for (const double target : {0.3, 0.5}) {
            PlannerOptions options = gemm_options(target);
            options.coupled = {"q_proj+k_proj"};
            Best best = try_all(table, statistics, options, layers_coupled);
            PlanResult result = make_plan(table, statistics, options);
            EXPECT_TRUE(layers_coupled(result.plan));
            EXPECT_NEAR(result.objective, best.objective, 2e-6 * best.objective);

            options.coupled = {"q_proj+k_proj", "dgrad+wgrad"};
            best = try_all(table, statistics, options, [&](const Plan& plan) {
                return layers_coupled(plan) && slots_coupled(plan);
            });
            result = make_plan(table, statistics, options);
            EXPECT_TRUE(layers_coupled(result.plan) && slots_coupled(result.plan));
            EXPECT_NEAR(result.objective, best.objective, 2e-6 * best.objective);
        }
    }
}

TEST(Granularity, CouplingHoldsForMethodsThatFollowAnOrderToo) {
    const LayerTable table = llama_table(4, 64, 172, 16);
    for (const std::string method : {"random", "layer-type", "layer-id", "uniform"}) {
        for (const Granularity granularity : {Granularity::kLayer, Granularity::kGemm}) {
            PlannerOptions options;
            options.method = method;
            options.target = 0.4;
            options.granularity = granularity;
            options.coupled = {"q_proj+k_proj+v_proj", "gate_proj+up_proj"};
            const PlanResult result = make_plan(table, {}, options);
            EXPECT_GE(result.reached, 0.4 * (1 - 1e-9));
            EXPECT_EQ(result.plan.layers.size(), table.size() - 1);
            for (int b = 0; b < 4; ++b) {
                const std::string path = "model.layers." + std::to_string(b) + ".";
                const auto of = [&](const std::string& name) {
                    return recipes_text(result.plan, path + name);
                };
                EXPECT_EQ(of("self_attn.q_proj"), of("self_attn.k_proj"));
                EXPECT_EQ(of("self_attn.q_proj"), of("self_attn.v_proj"));
                EXPECT_EQ(of("mlp.gate_proj"), of("mlp.up_proj"));
            }
        }
    }
}

// The least sum of `cost` over the GEMMs among all plans of two recipes that reach the target.
double least(const LayerTable& table, double target,
             const std::function<double(std::size_t layer, std::size_t slot, bool low)>& cost) {
    const std::vector<double> shares = candidate_shares(table);
    const std::size_t gemms = 3 * table.size();
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t choice = 0; choice < std::size_t{1} << gemms; ++choice) {
        double sum = 0, reached = 0;
        for (std::size_t i = 0; i < gemms; ++i) {
            const bool low = (choice >> i & 1) != 0;
            sum += cost(i / 3, i % 3, low);
            if (low) reached += shares[i / 3] / 3;
        }
        if (reached >= target * (1 - 1e-9)) best = std::min(best, sum);
    }
    return best;
}

double cost_of(const Plan& plan, const LayerTable& table,
               const std::function<double(std::size_t, std::size_t, bool)>& cost) {
    double sum = 0;
    for (std::size_t l = 0; l < table.size(); ++l) {
        for (const Slot slot : kSlots) {
            const bool low = plan.recipe(table[l].name, slot) == "fp4";
            sum += cost(l, static_cast<std::size_t>(slot), low);
        }
    }
    return sum;
}

TEST(Granularity, LocalErrorsAreThoseOfTheOperandsOfEachGemm) {
    const LayerTable table = small_table();
    for (unsigned seed = 1; seed <= 4; ++seed) {
        ModelStatistics statistics = random_statistics(table, seed);
        std::mt19937 random(seed);
        std::uniform_real_distribution<double> u(0.2, 3);
        for (LayerStatistics& layer : statistics.layers) {
            for (auto& [name, e] : layer.errors) {
                e.ew_dgrad = u(random) * e.ew;
                e.eg_wgrad = u(random) * e.eg;
                e.ex_wgrad = u(random) * e.ex;
            }
        }
        for (const bool relative : {false, true}) {
            const auto cost = [&](std::size_t l, std::size_t slot, bool low) {
                const LayerStatistics& s = statistics.layers[l];
                const auto& e = s.errors.at(low ? "fp4" : "fp8");
                const std::array<double, 3> a{e.ex, e.eg, *e.eg_wgrad},
                    b{e.ew, *e.ew_dgrad, *e.ex_wgrad};
                const std::array<double, 3> na{s.x, s.g, s.g}, nb{s.w, s.w, s.x};
                return relative ? a[slot] / na[slot] + b[slot] / nb[slot] : a[slot] + b[slot];
            };
            for (const double target : {0.2, 0.5, 0.8}) {
                PlannerOptions options = gemm_options(target);
                options.method = relative ? "min-rel-err" : "min-abs-err";
                const Plan plan = make_plan(table, statistics, options).plan;
                const double best = least(table, target, cost);
                EXPECT_NEAR(cost_of(plan, table, cost), best, 2e-6 * best) << options.method;
            }
        }
    }
}

// Of an estimator fprop alone has a cost. Up to two thirds no fprop is lowered, and what is has the
// least DW of all that reaches the target.
TEST(Granularity, EstimatorsLowerWhatTheLossDoesNotSeeFirst) {
    const LayerTable table = small_table();
    const ModelStatistics statistics = random_statistics(table, 2);
    for (const std::string& method : estimator_names()) {
        const LossEstimator estimator = estimator_from_name(method);
        const auto parts = estimate_slot_divergence(statistics, {"fp8", "fp4"}, estimator);
        const auto weight = [&](std::size_t l, std::size_t slot, bool low) {
            return parts[l][low][slot].weight;
        };
        const auto loss = [&](std::size_t l, std::size_t slot, bool low) {
            return parts[l][low][slot].loss;
        };
        for (const double target : {0.2, 0.5, 0.8}) {
            SCOPED_TRACE(method + " " + std::to_string(target));
            PlannerOptions options = gemm_options(target);
            options.method = method;
            const PlanResult result = make_plan(table, statistics, options);
            const double best = least(table, target, loss);
            EXPECT_NEAR(cost_of(result.plan, table, loss), best, 2e-6 * best);
            // Where fp4 costs the loss less by chance it is taken anyway.
            const auto cheaper = [&](std::size_t l) {
                return loss(l, 0, true) < loss(l, 0, false);
            };
            int paid_fprops = 0;
            for (std::size_t l = 0; l < table.size(); ++l) {
                paid_fprops +=
                    result.plan.recipe(table[l].name, Slot::kFprop) == "fp4" && !cheaper(l);
            }
            if (paid_fprops > 0) {
                EXPECT_GT(target, 2.0 / 3);
                continue;
            }
            const double least_weight =
                least(table, target, [&](std::size_t l, std::size_t slot, bool low) {
                    return slot == 0 && low != cheaper(l) ? 1e9 : weight(l, slot, low);
                });
            EXPECT_NEAR(cost_of(result.plan, table, weight), least_weight, 1e-5 * least_weight);
        }
    }
}

TEST(Granularity, RandomDrawsGemmsAndTheOtherOrdersGoByLayers) {
    const LayerTable table = llama_table(3, 64, 172, 16);
    const auto mixed_layers = [&](const std::string& method, std::uint64_t seed) {
        PlannerOptions options = gemm_options(0.5);
        options.method = method;
        options.seed = seed;
        const PlanResult result = make_plan(table, {}, options);
        EXPECT_GE(result.reached, 0.5);
        EXPECT_EQ(result.plan, make_plan(table, {}, options).plan);
        int mixed = 0;
        for (const LayerInfo& layer : table) {
            mixed += recipes_text(result.plan, layer.name).find('/') != std::string::npos;
        }
        return mixed;
    };
    int mixed = 0;
    for (std::uint64_t seed = 0; seed < 4; ++seed) mixed += mixed_layers("random", seed);
    EXPECT_GT(mixed, 4 * 7);  // of 21 layers three in four are mixed when every GEMM is tossed for
    EXPECT_EQ(mixed_layers("layer-type", 0), 0);
    EXPECT_EQ(mixed_layers("layer-id", 0), 0);
}

TEST(Granularity, UnitsAreNamedAfterWhatTheyHold) {
    const LayerTable table = small_table();
    PlannerOptions options = gemm_options(0.5);
    EXPECT_EQ(make_task(table, options).units.size(), 9u);
    options.coupled = {"q_proj+k_proj", "dgrad+wgrad"};
    const PlanTask task = make_task(table, options);
    ASSERT_EQ(task.units.size(), 4u);
    EXPECT_EQ(task.units[0].name, "m.0.q_proj.fprop + m.0.k_proj.fprop");
    EXPECT_EQ(task.units[3].name, "m.0.up_proj.dgrad + m.0.up_proj.wgrad");
    EXPECT_NEAR(task.units[3].work, 160.0 / (64 + 16 + 160) * 2 / 3, 1e-12);
    options.granularity = Granularity::kLayer;
    options.coupled = {"q_proj+k_proj"};
    const PlanTask layers = make_task(table, options);
    ASSERT_EQ(layers.units.size(), 2u);
    EXPECT_EQ(layers.units[0].name, "m.0.q_proj + m.0.k_proj");
    EXPECT_EQ(layers.units[1].name, "m.0.up_proj");
}

TEST(Granularity, CouplingsThatMeanNothingAreRefused) {
    LayerTable table = small_table();
    const auto refused = [&](Granularity granularity, std::vector<std::string> coupled) {
        PlannerOptions options = gemm_options(0.5);
        options.granularity = granularity;
        options.coupled = std::move(coupled);
        return refusal(ErrorCode::kUsage, [&] { make_task(table, options); });
    };
    const auto has = [](const std::string& text, const std::string& part) {
        return text.find(part) != std::string::npos;
    };
    const auto layer = Granularity::kLayer, gemm = Granularity::kGemm;
    EXPECT_TRUE(has(refused(layer, {"q_proj"}), "one name alone"));
    EXPECT_TRUE(has(refused(layer, {""}), "one name alone"));
    EXPECT_TRUE(has(refused(layer, {"q_proj+qk_proj"}), "'qk_proj'"));
    EXPECT_TRUE(has(refused(layer, {"q_proj+q_proj"}), "twice"));
    EXPECT_TRUE(
        has(refused(layer, {"q_proj+k_proj", "k_proj+up_proj"}), "'k_proj' is coupled twice"));
    EXPECT_TRUE(has(refused(layer, {"dgrad+wgrad"}), "granularity gemm"));
    EXPECT_TRUE(has(refused(gemm, {"dgrad+q_proj"}), "'q_proj' is no slot"));
    EXPECT_TRUE(has(refused(gemm, {"dgrad+wgrad", "fprop+wgrad"}), "twice"));
    EXPECT_EQ(refused(gemm, {"fprop+dgrad+wgrad", "q_proj+k_proj+up_proj"}), "accepted");
    table[1].stage = 1;
    EXPECT_TRUE(has(refused(layer, {"q_proj+k_proj"}), "stage"));
    EXPECT_THROW(granularity_from_name("gem"), Error);
}

TEST(Granularity, AllSlotsCoupledIsTheLayer) {
    const LayerTable table = tiny_llama();
    PlannerOptions options = gemm_options(0.5);
    options.coupled = {"fprop+dgrad+wgrad"};
    const PlanResult result = make_plan(table, random_statistics(table, 1), options);
    for (const LayerInfo& layer : table) {
        EXPECT_EQ(recipes_text(result.plan, layer.name).find('/'), std::string::npos);
    }
    EXPECT_EQ(make_task(table, options).units.size(), table.size() - 1);
}

TEST(Granularity, FinerChoiceIsNeverDearer) {
    const LayerTable table = tiny_llama(4);
    const ModelStatistics statistics = random_statistics(table, 2);
    for (const double target : {0.3, 0.7}) {
        PlannerOptions options = gemm_options(target);
        const PlanResult fine = make_plan(table, statistics, options);
        options.coupled = {"fprop+dgrad+wgrad"};
        EXPECT_LE(fine.objective, make_plan(table, statistics, options).objective * (1 + 1e-6));
        for (const PlanResult::Stage& stage : fine.stages) {
            EXPECT_GE(stage.reached, target * (1 - 1e-9));
            EXPECT_NEAR(stage.work, 0.25, 0.05);
        }
    }
}

TEST(Planner, TargetsAreRelaxedStageByStage) {
    // Stage 1 holds layers that have no 4-bit option worth its name: all excluded but one.
    LayerTable table = llama_table(2, 64, 172, 16, 2);
    const ModelStatistics statistics = random_statistics(table, 1);
    PlannerOptions options;
    options.recipes = {"bf16", "fp8", "fp4"};
    options.efficiency = Efficiency::kTimeSaved;
    options.target = 0.8;
    PlanResult result = make_plan(table, statistics, options);
    EXPECT_TRUE(result.relaxed);
    ASSERT_EQ(result.stages.size(), 2u);
    for (const PlanResult::Stage& stage : result.stages) {
        EXPECT_NEAR(stage.target, 0.75, 1e-12);
        EXPECT_NEAR(stage.reached, 0.75, 1e-12);
    }
    // A stage without candidates asks for nothing.
    for (LayerInfo& layer : table) layer.candidate = layer.candidate && layer.stage == 0;
    options.target = 0.5;
    result = make_plan(table, statistics, options);
    EXPECT_FALSE(result.relaxed);
    EXPECT_EQ(result.stages[1].work, 0);
    EXPECT_EQ(result.stages[1].target, 0);
    EXPECT_GE(result.stages[0].reached, 0.5 * (1 - 1e-9));
}

TEST(Planner, OneCandidateAndOneOption) {
    LayerTable table = small_table();
    table[0].candidate = table[1].candidate = false;
    const ModelStatistics statistics = random_statistics(table, 1);
    PlannerOptions options;
    options.target = 0.2;
    EXPECT_NEAR(make_plan(table, statistics, options).reached, 1.0 / 3, 1e-12);
    options.granularity = Granularity::kLayer;
    EXPECT_EQ(make_plan(table, statistics, options).plan.recipe("m.0.up_proj", Slot::kFprop),
              "fp4");
    options.target = 0;
    EXPECT_EQ(make_plan(table, statistics, options).plan.recipe("m.0.up_proj", Slot::kFprop),
              "fp8");
    options.recipes = {"fp8"};
    const PlanResult only = make_plan(table, statistics, options);
    EXPECT_EQ(only.plan.layers.size(), 1u);
    EXPECT_FALSE(only.relaxed);
    options.target = 1;
    EXPECT_TRUE(make_plan(table, statistics, options).relaxed);
}

TEST(Planner, BeginsFromThePlanInForce) {
    const LayerTable table = tiny_llama(2);
    const ModelStatistics statistics = random_statistics(table, 5);
    PlannerOptions options;
    options.target = 0.6;
    const PlanResult cold = make_plan(table, statistics, options);
    options.start = cold.plan;
    const PlanResult warm = make_plan(table, statistics, options);
    EXPECT_LE(warm.objective, cold.objective);
    // Without time the plan in force is what there is, and it is no worse than itself.
    options.limits.seconds = 1e-9;
    const PlanResult late = make_plan(table, statistics, options);
    EXPECT_EQ(late.status, SelectionStatus::kFeasible);
    EXPECT_EQ(late.plan.layers, cold.plan.layers);
    EXPECT_GT(late.gap, 0);
    // Plans of other recipes, or that miss the target, are no start.
    options.start = uniform_plan(table, "fp8");
    EXPECT_EQ(make_plan(table, statistics, options).status, SelectionStatus::kNoSolution);
    options.start = uniform_plan(table, "int8");
    EXPECT_EQ(make_plan(table, statistics, options).status, SelectionStatus::kNoSolution);
}

TEST(Planner, StatisticsOfAnotherModelAreStretchedOverTheDepth) {
    const LayerTable small = llama_table(4, 64, 172, 16);
    ModelStatistics statistics = random_statistics(small, 7);
    const LayerTable large = llama_table(13, 64, 172, 16);
    PlannerOptions options;
    options.target = 0.5;
    options.granularity = Granularity::kLayer;
    EXPECT_THROW(make_plan(large, statistics, options), Error);
    options.stretch_statistics = true;
    const PlanResult result = make_plan(large, statistics, options);
    EXPECT_GE(result.reached, 0.5 * (1 - 1e-9));
    EXPECT_NE(result.notes.front().find("assumed"), std::string::npos);
    // Blocks 0, 4, 8, 12 of 13 lie where blocks 0, 1, 2, 3 of 4 do.
    PlanTask task = make_task(large, options);
    set_costs(task, large, statistics, options);
    const auto d = estimate_divergence(statistics, options.recipes, options.estimator);
    for (std::size_t b = 0; b < 4; ++b) {
        for (std::size_t l = 0; l < 7; ++l) {
            EXPECT_EQ(task.units[(4 * b) * 7 + l].divergence[1].loss, d[b * 7 + l][1].loss);
        }
    }
    LayerTable other = large;
    other[3].type = "conv";
    EXPECT_THROW(make_plan(other, statistics, options), Error);
}

}  // namespace
}  // namespace subbyte::plan
