// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Twelve instances whose optima are known from another solver and from an exact dynamic programme.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "subbyte/plan/selection.h"
#include "subbyte/plan/selection_json.h"

namespace subbyte::plan {
namespace {

nlohmann::json read_instances() {
    std::ifstream file(SUBBYTE_GOLDEN_DIR "/ilp.json");
    std::stringstream text;
    text << file.rdbuf();
    return nlohmann::json::parse(text.str()).at("instances");
}

double objective(const SelectionProblem& problem, const std::vector<int>& choice) {
    double sum = 0;
    for (std::size_t i = 0; i < choice.size(); ++i) {
        sum += problem.items[i].cost.at(static_cast<std::size_t>(choice[i]));
    }
    return sum;
}

void expect_satisfies(const SelectionProblem& problem, const std::vector<int>& choice) {
    ASSERT_EQ(choice.size(), problem.items.size());
    std::vector<double> gain(problem.target.size(), 0.0);
    for (std::size_t i = 0; i < choice.size(); ++i) {
        gain.at(static_cast<std::size_t>(problem.items[i].group)) +=
            problem.items[i].gain.at(static_cast<std::size_t>(choice[i]));
    }
    for (std::size_t g = 0; g < gain.size(); ++g) EXPECT_GE(gain[g], problem.target[g]) << g;
}

class Instance : public testing::TestWithParam<int> {};

TEST_P(Instance, HasTheKnownOptimum) {
    const nlohmann::json instance = read_instances().at(static_cast<std::size_t>(GetParam()));
    SCOPED_TRACE(instance.at("name").get<std::string>());
    const SelectionProblem problem = problem_from_json(instance);
    ASSERT_EQ(problem.items.size(), instance.at("layers").get<std::size_t>());

    const Selection selection = solve_selection(problem, {.seconds = 60, .gap = 0});
    RecordProperty("milliseconds", std::to_string(1e3 * selection.seconds));
    if (instance.at("status") == "infeasible") {
        EXPECT_EQ(selection.status, SelectionStatus::kInfeasible);
        EXPECT_TRUE(selection.choice.empty());
        return;
    }
    ASSERT_EQ(selection.status, SelectionStatus::kOptimal);
    const double known = instance.at("objective").get<double>();
    EXPECT_NEAR(selection.objective, known, 1e-9 * std::abs(known));
    EXPECT_NEAR(objective(problem, selection.choice), known, 1e-9 * std::abs(known));
    expect_satisfies(problem, selection.choice);
    for (const int layer : instance.at("locked_to_option_0").get<std::vector<int>>()) {
        EXPECT_EQ(selection.choice[static_cast<std::size_t>(layer)], 0);
    }
    // The instance was read as it was meant.
    const auto known_choice = instance.at("one_optimal_choice").get<std::vector<int>>();
    EXPECT_NEAR(objective(problem, known_choice), known, 1e-9 * std::abs(known));
    expect_satisfies(problem, known_choice);
}

TEST_P(Instance, WithoutATargetCostsTheUnconstrainedMinimum) {
    const nlohmann::json instance = read_instances().at(static_cast<std::size_t>(GetParam()));
    if (!instance.contains("unconstrained_minimum")) return;  // infeasible instances give none
    SelectionProblem problem = problem_from_json(instance);
    std::fill(problem.target.begin(), problem.target.end(), 0.0);
    const double known = instance.at("unconstrained_minimum").get<double>();
    EXPECT_NEAR(solve_selection(problem).objective, known, 1e-9 * std::abs(known));
}

INSTANTIATE_TEST_SUITE_P(Ilp, Instance, testing::Range(0, 12));

TEST(Ilp, HasTwelveInstances) { EXPECT_EQ(read_instances().size(), 12u); }

}  // namespace
}  // namespace subbyte::plan
