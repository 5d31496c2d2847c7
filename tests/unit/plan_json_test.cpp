// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Everything the planner reads and writes as JSON: plans, statistics, selection instances.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "plan_tables.h"
#include "subbyte/core/error.h"
#include "subbyte/plan/plan.h"
#include "subbyte/plan/selection_json.h"

namespace subbyte::plan {
namespace {

using nlohmann::json;

struct Complaint {
    std::string message, hint;
    bool has(const std::string& part) const { return message.find(part) != std::string::npos; }
};

// The Error kData that the action must throw.
Complaint data_error(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kData) << error.what();
        return {error.what(), error.hint()};
    }
    ADD_FAILURE() << "no error";
    return {};
}

Plan some_plan() {
    Plan plan;
    plan.method = "snip";
    plan.set("model.layers.0.self_attn.q_proj", "fp4");
    plan.set("model.layers.1.mlp.down_proj", "nvfp4");
    plan.layers["model.layers.1.self_attn.o_proj"] = {"fp4", "fp8", "bf16"};
    return plan;
}

TEST(PlanJson, RoundTrip) {
    for (const Plan& plan : {some_plan(), Plan{}, uniform_plan(tiny_llama(), "fp8")}) {
        EXPECT_EQ(plan_from_json(to_json(plan)), plan);
        EXPECT_EQ(plan_from_json(json::parse(to_json(plan).dump(2))), plan);
    }
    const LayerTable table = llama_table(2, 64, 172, 16);
    EXPECT_EQ(plan_from_json(to_json(some_plan()), &table), some_plan());
}

TEST(PlanJson, VariantsOfRecipesKeepTheirText) {
    Plan plan = uniform_plan(llama_table(1, 64, 172, 16), "fp4.w=1x16");
    plan.layers.begin()->second[1] = "nvfp4.g=e2m1:1x16:ue4m3+f32:rht16:sr";
    EXPECT_EQ(plan_from_json(to_json(plan)), plan);
    nlohmann::json wrong = to_json(plan);
    wrong["fallback"] = "fp4.w=1x";
    EXPECT_THROW(plan_from_json(wrong), Error);
}

TEST(PlanJson, IsShortAndReadable) {
    const json written = to_json(some_plan());
    EXPECT_EQ(written["layers"]["model.layers.0.self_attn.q_proj"], "fp4");
    EXPECT_EQ(written["layers"]["model.layers.1.self_attn.o_proj"],
              json({{"fprop", "fp4"}, {"dgrad", "fp8"}, {"wgrad", "bf16"}}));
}

TEST(PlanJson, MistakesAreNamed) {
    const LayerTable table = llama_table(2, 64, 172, 16);
    const auto complaint = [&](const std::function<void(json&)>& spoil) {
        json written = to_json(some_plan());
        spoil(written);
        return data_error([&] { plan_from_json(written, &table); });
    };
    const std::string q = "model.layers.0.self_attn.q_proj";
    const auto unknown_recipe = complaint([&](json& j) { j["layers"][q] = "fp44"; });
    EXPECT_TRUE(unknown_recipe.has(q) && unknown_recipe.has("'fp44'")) << unknown_recipe.message;
    EXPECT_EQ(unknown_recipe.hint, "did you mean 'fp4'?");
    const auto unknown_layer =
        complaint([](json& j) { j["layers"]["model.layers.0.self_attn.q_pro"] = "fp4"; });
    EXPECT_TRUE(unknown_layer.has("q_pro'")) << unknown_layer.message;
    EXPECT_EQ(unknown_layer.hint, "did you mean '" + q + "'?");
    EXPECT_TRUE(complaint([&](json& j) { j["layers"][q] = 4; }).has(q));
    EXPECT_TRUE(complaint([&](json& j) { j["layers"][q] = {{"fprop", "fp4"}}; }).has("'dgrad'"));
    EXPECT_TRUE(complaint([&](json& j) {
                    j["layers"][q] = {{"fprop", "fp4"}, {"wgard", "fp4"}};
                }).has("wgard"));
    EXPECT_TRUE(complaint([](json& j) { j["fallback"] = "bf15"; }).has("fallback"));
    EXPECT_TRUE(complaint([](json& j) { j.erase("method"); }).has("'method'"));
    EXPECT_TRUE(complaint([](json& j) { j["version"] = 2; }).has("version"));
    EXPECT_TRUE(complaint([](json& j) { j["layers"] = json::array(); }).has("layers"));
    EXPECT_TRUE(complaint([](json& j) { j["layer"] = 1; }).has("'layer'"));
    EXPECT_TRUE(complaint([](json& j) { j = 3; }).has("an object expected"));
}

TEST(Plan, SharesBitsAndChanges) {
    const LayerTable table{make_layer("a", 64, 64, 8), make_layer("b", 64, 192, 8)};
    Plan plan;
    plan.layers["a"] = {"fp4", "fp8", "bf16"};
    plan.set("b", "fp4");
    EXPECT_NEAR(fp4_share(plan, table), 0.25 / 3 + 0.75, 1e-15);
    EXPECT_NEAR(effective_bits(plan, table), 0.25 * (4 + 8 + 16) / 3 + 0.75 * 4, 1e-12);
    EXPECT_EQ(fp4_share({}, table), 0);  // the fallback
    EXPECT_EQ(effective_bits({}, table), 16);
    EXPECT_EQ(effective_bits({}, {}), 0);
    EXPECT_EQ(changed_slots(plan, {}, table), 5);
    EXPECT_EQ(changed_slots(plan, plan, table), 0);
    EXPECT_EQ(changed_slots(plan, uniform_plan(table, "fp4"), table), 2);
    EXPECT_THROW(uniform_plan(table, "fp5"), Error);
}

TEST(StatisticsJson, RoundTrip) {
    ModelStatistics statistics = random_statistics(llama_table(2, 64, 172, 16, 2), 3);
    statistics.layers[0].errors["fp4"].output.reset();
    statistics.layers[1].errors["fp4"].first_order.reset();
    statistics.layers[1].errors["fp4"].output = {.squared = 3, .elements = 2, .tokens = 0.5};
    statistics.layers[2].outer = 7.5;
    statistics.layers[2].curvature = -0.125;
    statistics.layers[2].backward.clear();
    statistics.layers[3].errors["fp8"].ew_dgrad = 0.25;
    statistics.layers[3].errors["fp8"].eg_wgrad = 0.0;
    const json written = to_json(statistics);
    const ModelStatistics read = statistics_from_json(json::parse(written.dump()));
    EXPECT_EQ(to_json(read), written);  // doubles survive as text
    ASSERT_EQ(read.layers.size(), statistics.layers.size());
    EXPECT_EQ(read.step, statistics.step);
    EXPECT_EQ(read.loss, statistics.loss);
    for (std::size_t l = 0; l < read.layers.size(); ++l) {
        EXPECT_EQ(read.table[l].name, statistics.table[l].name);
        EXPECT_EQ(read.table[l].type, statistics.table[l].type);
        EXPECT_EQ(read.table[l].block, statistics.table[l].block);
        EXPECT_EQ(read.table[l].stage, statistics.table[l].stage);
        EXPECT_EQ(read.table[l].tokens, statistics.table[l].tokens);
        EXPECT_EQ(read.table[l].candidate, statistics.table[l].candidate);
        EXPECT_EQ(read.layers[l].jacobian, statistics.layers[l].jacobian);
        EXPECT_EQ(read.layers[l].backward, statistics.layers[l].backward);
        EXPECT_EQ(read.layers[l].forward, statistics.layers[l].forward);
        EXPECT_EQ(read.layers[l].errors.at("fp4").eg, statistics.layers[l].errors.at("fp4").eg);
        for (const Slot slot : kSlots) {
            EXPECT_EQ(read.layers[l].errors.at("fp8").of(slot),
                      statistics.layers[l].errors.at("fp8").of(slot));
        }
        EXPECT_EQ(read.layers[l].errors.at("fp8").ew_dgrad,
                  statistics.layers[l].errors.at("fp8").ew_dgrad);
        EXPECT_EQ(read.layers[l].errors.at("fp4").first_order,
                  statistics.layers[l].errors.at("fp4").first_order);
        EXPECT_EQ(read.layers[l].errors.at("fp4").output.has_value(), l != 0);
        EXPECT_EQ(read.layers[l].outer, statistics.layers[l].outer);
        EXPECT_EQ(read.layers[l].curvature, statistics.layers[l].curvature);
    }
}

// With every number that a file can hold.
ModelStatistics full_statistics() {
    ModelStatistics statistics = random_statistics(llama_table(1, 64, 172, 16), 3);
    for (LayerStatistics& layer : statistics.layers) {
        layer.outer = 7.5;
        layer.curvature = -0.125;
        LayerStatistics::Errors& errors = layer.errors["fp4"];
        errors.ew_dgrad = errors.eg_wgrad = errors.ex_wgrad = 0.25;
        errors.output = {.squared = 3, .elements = 2, .tokens = 0.5};
    }
    return statistics;
}

TEST(StatisticsJson, OutputErrorsComeBack) {
    const ModelStatistics statistics = full_statistics();
    const auto read = statistics_from_json(json::parse(to_json(statistics).dump()));
    const auto& output = read.layers[1].errors.at("fp4").output.value();
    EXPECT_EQ(output.squared, 3);
    EXPECT_EQ(output.elements, 2);
    EXPECT_EQ(output.tokens, 0.5);
}

TEST(StatisticsJson, MistakesAreNamed) {
    const auto complaint = [](const std::function<void(json&)>& spoil) {
        json written = to_json(random_statistics(llama_table(1, 64, 172, 16), 3));
        spoil(written);
        return data_error([&] { statistics_from_json(written); });
    };
    EXPECT_TRUE(complaint([](json& j) { j["layers"][2]["x"] = -1; }).has("layers[2].x"));
    EXPECT_TRUE(complaint([](json& j) { j["layers"][2]["x"] = nullptr; }).has("layers[2].x"));
    EXPECT_TRUE(complaint([](json& j) { j["layers"][2].erase("w"); }).has("'w'"));
    EXPECT_TRUE(
        complaint([](json& j) { j["layers"][0]["forward"] = {1.0}; }).has("layers[0].forward"));
    EXPECT_TRUE(complaint([](json& j) { j["layers"][0]["forward"][3] = "x"; }).has("forward[3]"));
    EXPECT_TRUE(complaint([](json& j) { j["layers"][0]["errors"]["fp4"]["ez"] = 1; }).has("'ez'"));
    EXPECT_TRUE(complaint([](json& j) { j["layers"][0]["tokens"] = 1.5; }).has("tokens"));
    EXPECT_TRUE(
        complaint([](json& j) { j["layers"][0]["stage"] = 18446744073709551615u; }).has("stage"));
    EXPECT_TRUE(complaint([](json& j) { j["loss"] = "low"; }).has("loss"));
}

json small_instance() {
    return json::parse(R"({"name": "small", "options_sixteenths": [0, 8, 16], "weights": [4, 3, 3],
        "stage_of_layer": [0, 1, 1], "cost": [[0, 1, 2], [0, 1, "inf"], [0.5, 0.25, 2]],
        "locked_to_option_0": [0], "constraints": [{"stage": 1, "min_gain": 24}]})");
}

TEST(InstanceJson, Reads) {
    const SelectionProblem problem = problem_from_json(small_instance());
    ASSERT_EQ(problem.items.size(), 3u);
    EXPECT_EQ(problem.target, (std::vector<double>{0, 24}));
    EXPECT_EQ(problem.items[0].gain, (std::vector<double>{0, 32, 64}));
    EXPECT_EQ(problem.items[2].group, 1);
    EXPECT_TRUE(std::isinf(problem.items[0].cost[1]) && std::isinf(problem.items[0].cost[2]));
    EXPECT_TRUE(std::isinf(problem.items[1].cost[2]));
    EXPECT_EQ(problem.items[1].name, "layer 1");
    const json result = to_json(solve_selection(problem));
    EXPECT_EQ(result["status"], "optimal");
    EXPECT_EQ(result["choice"], json({0, 0, 1}));
    EXPECT_EQ(result["objective"], 0.25);
    json global = small_instance();
    global["constraints"] = json::parse(R"([{"stage": -1, "min_gain": 1000}])");
    global["names"] = {"q", "k", "v"};
    const Selection none = solve_selection(problem_from_json(global));
    EXPECT_EQ(none.status, SelectionStatus::kInfeasible);
    EXPECT_TRUE(to_json(none)["objective"].is_null());
    EXPECT_EQ(problem_from_json(global).items[1].name, "k");
}

TEST(InstanceJson, MistakesAreNamed) {
    const auto complaint = [](const std::function<void(json&)>& spoil) {
        json written = small_instance();
        spoil(written);
        return data_error([&] { problem_from_json(written); });
    };
    EXPECT_TRUE(complaint([](json& j) { j["cost"][1] = {0, 1}; }).has("cost[1]"));
    EXPECT_TRUE(complaint([](json& j) { j["cost"][1][2] = nullptr; }).has("cost[1][2]"));
    EXPECT_TRUE(complaint([](json& j) { j["cost"][1][2] = "nan"; }).has("cost[1][2]"));
    EXPECT_TRUE(complaint([](json& j) { j["cost"].erase(2); }).has("cost"));
    EXPECT_TRUE(complaint([](json& j) { j["weights"][0] = -4; }).has("weights[0]"));
    EXPECT_TRUE(complaint([](json& j) { j["stage_of_layer"][0] = -1; }).has("stage_of_layer[0]"));
    EXPECT_TRUE(
        complaint([](json& j) { j["locked_to_option_0"][0] = 3; }).has("locked_to_option_0[0]"));
    EXPECT_TRUE(complaint([](json& j) { j["constraint"] = 1; }).has("'constraint'"));
    EXPECT_TRUE(complaint([](json& j) { j.erase("weights"); }).has("'weights'"));
    const json second = {{"stage", 1}, {"min_gain", 1}}, all = {{"stage", -1}, {"min_gain", 1}};
    EXPECT_TRUE(
        complaint([&](json& j) { j["constraints"].push_back(second); }).has("constraints[1]"));
    EXPECT_TRUE(complaint([&](json& j) { j["constraints"].push_back(all); }).has("constraints[1]"));
}

// Whatever the text, reading it gives a value or an Error kData.
void expect_value_or_data_error(const std::function<void()>& read, const std::string& text) {
    try {
        read();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kData) << error.what() << "\n" << text;
    } catch (const std::exception& error) {
        ADD_FAILURE() << "another exception: " << error.what() << "\n" << text;
    }
}

// A random node of the tree.
json& random_node(json& root, std::mt19937& random) {
    json* node = &root;
    while (node->is_structured() && !node->empty() && random() % 8 != 0) {
        auto next = node->begin();
        std::advance(next, static_cast<std::ptrdiff_t>(random() % node->size()));
        node = &*next;
    }
    return *node;
}

TEST(Json, MutatedFilesNeverCrash) {
    const LayerTable table = llama_table(2, 64, 172, 16);
    const std::pair<json, std::function<void(const json&)>> kinds[] = {
        {to_json(some_plan()), [&](const json& j) { plan_from_json(j, &table); }},
        {to_json(some_plan()), [](const json& j) { plan_from_json(j); }},
        {to_json(full_statistics()), [](const json& j) { statistics_from_json(j); }},
        {small_instance(), [](const json& j) { problem_from_json(j); }}};
    std::mt19937 random(99);
    const json replacements[] = {nullptr,
                                 true,
                                 -1,
                                 18446744073709551615u,
                                 1e308,
                                 -0.5,
                                 "",
                                 "fp4",
                                 "inf",
                                 json::array(),
                                 json::object(),
                                 {1, 2, 3},
                                 {{"stage", 0}}};
    for (const auto& [valid, read] : kinds) {
        const std::string original = valid.dump();
        for (int trial = 0; trial < 1500; ++trial) {
            std::string text = original;
            for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
                const std::size_t at = random() % text.size();
                switch (random() % 4) {
                    case 0: text[at] = static_cast<char>(random() % 256); break;
                    case 1: text.erase(at, 1 + random() % 9); break;
                    case 2: text.insert(at, 1, "0-9.e{}[],:\""[random() % 12]); break;
                    default: text.insert(at, text.substr(random() % text.size(), random() % 20));
                }
            }
            expect_value_or_data_error(
                [&, &reader = read] { reader(json::parse(text, nullptr, false)); }, text);
        }
        for (int trial = 0; trial < 1500; ++trial) {
            json mutated = valid;
            for (unsigned edits = 1 + random() % 2; edits > 0; --edits) {
                random_node(mutated, random) = replacements[random() % std::size(replacements)];
            }
            expect_value_or_data_error([&, &reader = read] { reader(mutated); }, mutated.dump());
        }
    }
}

}  // namespace
}  // namespace subbyte::plan
