// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Machine profiles, and plans that save measured seconds or bytes.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/plan/cost_model.h"
#include "subbyte/plan/measured_times.h"
#include "subbyte/plan/planner.h"
#include "tests/error_of.h"
#include "tests/unit/plan_tables.h"

namespace subbyte::plan {
namespace {

using nlohmann::json;

MachineProfile::Entry entry(const std::string& recipe, std::int64_t tokens, std::int64_t in,
                            std::int64_t out, double product, double quantise) {
    MachineProfile::Entry result;
    result.recipe = recipe;
    result.tokens = tokens;
    result.in_features = in;
    result.out_features = out;
    for (GemmSeconds& gemm : result.slots) gemm = {product, quantise / 2, quantise / 2};
    return result;
}

// Layers 0 and 1 are large and quick in low precision; layers 2 and 3 are small: quantising eats
// what the product saves.
LayerTable two_sizes() {
    return {make_layer("m.0.up_proj", 512, 1024, 64), make_layer("m.1.up_proj", 512, 1024, 64),
            make_layer("m.0.k_proj", 64, 16, 64), make_layer("m.1.k_proj", 64, 16, 64)};
}

MachineProfile profile_of_two_sizes() {
    MachineProfile profile{.cpu = "a processor", .isa = "avx2", .threads = 2, .entries = {}};
    profile.entries = {
        entry("bf16", 64, 512, 1024, 10e-3, 0),   entry("fp8", 64, 512, 1024, 6e-3, 1e-3),
        entry("fp4", 64, 512, 1024, 3e-3, 1e-3),  entry("bf16", 64, 64, 16, 1e-3, 0),
        entry("fp8", 64, 64, 16, 0.7e-3, 0.5e-3), entry("fp4", 64, 64, 16, 0.5e-3, 0.5e-3)};
    return profile;
}

PlannerOptions seconds_options(double target) {
    PlannerOptions options;
    options.recipes = {"bf16", "fp8", "fp4"};
    options.efficiency = Efficiency::kSeconds;
    options.profile = std::make_shared<MachineProfile>(profile_of_two_sizes());
    options.target = target;
    return options;
}

TEST(MachineProfile, MeasuredShapesAreTakenAsTheyAre) {
    const MachineProfile profile = profile_of_two_sizes();
    const auto time = profile.time("fp8", Slot::kWgrad, 64, 512, 1024);
    EXPECT_TRUE(time.measured);
    EXPECT_DOUBLE_EQ(time.seconds.product, 6e-3);
    EXPECT_DOUBLE_EQ(time.seconds.quantise(), 1e-3);
    EXPECT_DOUBLE_EQ(time.seconds.total(), 7e-3);
    EXPECT_EQ(profile.recipes(), (std::vector<std::string>{"bf16", "fp8", "fp4"}));
}

TEST(MachineProfile, OtherShapesHaveARateBetweenTheirNeighbours) {
    MachineProfile profile;
    // 1 ns and 0.5 ns per multiply-add; quantising an operand: 2 ns and 1 ns per number.
    const auto add = [&](std::int64_t t, std::int64_t k, std::int64_t n, double rate) {
        MachineProfile::Entry e = entry("bf16", t, k, n, 0, 0);
        for (GemmSeconds& gemm : e.slots) gemm.product = rate * 1e-9 * double(t * k * n);
        e.slots[0].quantise_a = 2 * rate * 1e-9 * double(t * k);
        profile.entries.push_back(e);
    };
    add(10, 10, 10, 1.0);
    add(100, 100, 100, 0.5);
    // Half way between 1e3 and 1e6 on a logarithmic axis: 31623 multiply-adds.
    const auto half = profile.time("bf16", Slot::kFprop, 10, 10, 316);
    EXPECT_FALSE(half.measured);
    EXPECT_NEAR(half.seconds.product, 31600 * 0.75e-9, 31600 * 0.001e-9);
    EXPECT_NEAR(half.seconds.quantise_a, 100 * 2e-9, 1e-15);  // as few numbers as the small one
    // Beyond the ends the rate stays.
    EXPECT_NEAR(profile.time("bf16", Slot::kFprop, 1, 10, 10).seconds.product, 100e-9, 1e-15);
    EXPECT_NEAR(profile.time("bf16", Slot::kDgrad, 1000, 1000, 1000).seconds.product, 0.5, 1e-9);
    EXPECT_THROW(profile.time("fp4", Slot::kFprop, 10, 10, 10), Error);
}

TEST(MachineProfile, IsRefusedOnAnotherMachine) {
    const MachineProfile profile = profile_of_two_sizes();
    check_machine(profile, {"a processor", "avx2", 2});
    for (const Machine& other : {Machine{"another", "avx2", 2}, Machine{"a processor", "avx512", 2},
                                 Machine{"a processor", "avx2", 4}}) {
        try {
            check_machine(profile, other);
            FAIL();
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kUsage);
            EXPECT_NE(std::string(error.hint()).find("--foreign-profile"), std::string::npos);
        }
    }
}

TEST(MachineProfile, ReadsWhatItWrites) {
    const MachineProfile profile = profile_of_two_sizes();
    const json text = json::parse(to_json(profile).dump());
    EXPECT_EQ(to_json(profile_from_json(text)), to_json(profile));
    const auto refused = [&](const std::function<void(json&)>& spoil, const std::string& part) {
        json bad = text;
        spoil(bad);
        try {
            profile_from_json(bad);
            ADD_FAILURE() << part;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kData);
            EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
        }
    };
    refused([](json& j) { j["kind"] = "plan"; }, "kind");
    refused([](json& j) { j["version"] = 2; }, "version");
    refused([](json& j) { j["threads"] = 0; }, "threads");
    refused([](json& j) { j["entries"] = json::array(); }, "nothing was measured");
    refused([](json& j) { j["entries"][1]["recipe"] = "fp9"; }, "fp9");
    refused([](json& j) { j["entries"][1]["tokens"] = 0; }, "tokens");
    refused([](json& j) { j["entries"][1]["seconds"]["dgrad"].erase("product"); }, "product");
    refused([](json& j) { j["entries"][1]["seconds"]["dgrad"]["product"] = -1; }, "product");
    refused([](json& j) { j["entries"][1]["second"] = 1; }, "second");
    refused([](json& j) { j = json::array(); }, "machine profile");
}

TEST(Seconds, LayersWhereLowPrecisionDoesNotPayKeepTheirs) {
    const LayerTable table = two_sizes();
    const ModelStatistics statistics = random_statistics(table, 1);
    // FP4 saves 60 % in the large layers, nothing in the small ones, where FP8 costs time.
    const PlanResult result = make_plan(table, statistics, seconds_options(0.5));
    EXPECT_GE(result.reached, 0.5 * (1 - 1e-9));
    for (const char* name : {"m.0.k_proj", "m.1.k_proj"}) {
        EXPECT_EQ(recipes_text(result.plan, name), "bf16");
    }
    std::string notes;
    for (const std::string& note : result.notes) notes += note + "\n";
    EXPECT_NE(notes.find("'fp8' saves no time in k_proj (64x64x16: 3.6 ms, 1.5 of them "
                         "quantising; bf16 3 ms)"),
              std::string::npos)
        << notes;
    EXPECT_NE(notes.find("'fp4' saves no time in k_proj"), std::string::npos) << notes;
    EXPECT_EQ(notes.find("up_proj"), std::string::npos) << notes;
    // 36 of 66 ms: 18 of 30 in each large layer.
    const PlanResult all = make_plan(table, statistics, seconds_options(0.9));
    EXPECT_TRUE(all.relaxed);
    EXPECT_NEAR(all.reached, 36.0 / 66, 1e-12);
    EXPECT_EQ(recipes_text(all.plan, "m.0.up_proj"), "fp4");
    EXPECT_EQ(recipes_text(all.plan, "m.0.k_proj"), "bf16");
}

TEST(Seconds, OptionsThatCostTimeCountAgainstTheTarget) {
    const LayerTable table = two_sizes();
    const ModelStatistics statistics = random_statistics(table, 1);
    PlannerOptions options = seconds_options(0.4);
    options.recipes = {"fp8", "fp4"};  // the small layers must lose time or break even
    const PlanResult result = make_plan(table, statistics, options);
    EXPECT_GE(result.reached, 0.4 * (1 - 1e-9));
    double seconds = 0, bf16 = 0;
    for (const LayerInfo& layer : table) {
        for (const Slot slot : kSlots) {
            const auto time = [&](const std::string& recipe) {
                return options.profile
                    ->time(recipe, slot, layer.tokens, layer.in_features, layer.out_features)
                    .seconds.total();
            };
            seconds += time(result.plan.recipe(layer.name, slot));
            bf16 += time("bf16");
        }
    }
    EXPECT_NEAR(result.reached, 1 - seconds / bf16, 1e-12);
    EXPECT_NEAR(met_target(result.plan, table, options), result.reached, 1e-12);
}

TEST(Seconds, MethodsThatFollowAnOrderCountThemToo) {
    const LayerTable table = two_sizes();
    for (const std::string method : {"random", "layer-type", "layer-id"}) {
        PlannerOptions options = seconds_options(0.25);
        options.method = method;
        const PlanResult result = make_plan(table, {}, options);
        EXPECT_GE(result.reached, 0.25 * (1 - 1e-9)) << method;
    }
}

TEST(Seconds, InterpolationIsTold) {
    LayerTable table = two_sizes();
    table.push_back(make_layer("m.0.o_proj", 256, 256, 64));
    const PlanResult result = make_plan(table, random_statistics(table, 1), seconds_options(0.3));
    EXPECT_EQ(result.notes.front(), "no times measured of 64x256x256: interpolated");
    const auto times = measured_times(table, profile_of_two_sizes(), {"bf16", "fp4"});
    ASSERT_EQ(times.size(), 6u);
    EXPECT_EQ(times[1].layers, 2);
    EXPECT_TRUE(times[1].pays());
    EXPECT_NEAR(times[1].seconds, 12e-3, 1e-12);
    EXPECT_FALSE(times[3].pays());
    EXPECT_FALSE(times[5].measured);
}

TEST(Seconds, WhatIsMissingIsAnError) {
    LayerTable table = two_sizes();
    const auto message = [&](PlannerOptions options) {
        options.method = "layer-type";
        return error_of(ErrorCode::kUsage, [&] { make_plan(table, {}, options); });
    };
    PlannerOptions options = seconds_options(0.5);
    options.recipes = {"int8", "fp4"};
    EXPECT_NE(message(options).find("'int8'"), std::string::npos);
    options = seconds_options(0.5);
    options.profile = nullptr;
    EXPECT_NE(message(options).find("machine profile"), std::string::npos);
    table[1].tokens = 0;
    EXPECT_NE(message(seconds_options(0.5)).find("m.1.up_proj"), std::string::npos);
    options.efficiency = Efficiency::kBytes;
    EXPECT_NE(message(options).find("0 tokens"), std::string::npos);
}

TEST(Bytes, AreThoseOfTheCostModel) {
    const LayerTable table = two_sizes();
    PlannerOptions options;
    options.efficiency = Efficiency::kBytes;
    options.recipes = {"bf16", "fp8", "fp4"};
    for (const double target : {0.3, 0.6}) {
        options.target = target;
        const PlanResult result = make_plan(table, random_statistics(table, 2), options);
        EXPECT_GE(result.reached, target * (1 - 1e-9));
        const auto held = [&](const Plan& plan) {
            const Cost cost = estimate_cost(plan, table).total;
            return cost.quantised_weights + cost.saved_activations;
        };
        EXPECT_NEAR(result.reached, 1 - held(result.plan) / held(uniform_plan(table, "bf16")),
                    1e-12);
    }
}

}  // namespace
}  // namespace subbyte::plan
