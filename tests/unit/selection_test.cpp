// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/selection.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <thread>

#include "subbyte/core/error.h"
#include "tests/error_of.h"

namespace subbyte::plan {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Layers of 4, 3 and 3 units of work; option 1 is FP4 at an extra cost, the target a share of all
// work.
SelectionProblem three_layers(double target, std::vector<double> extra = {0.9, 0.5, 0.4}) {
    SelectionProblem problem;
    problem.target = {target};
    const double flops[] = {4, 3, 3};
    for (std::size_t i = 0; i < 3; ++i) {
        problem.items.push_back({.name = "layer " + std::to_string(i),
                                 .cost = {0, extra[i]},
                                 .gain = {0, flops[i] / 10},
                                 .group = 0});
    }
    return problem;
}

// A selection must be one option per item with the numbers that follow from it.
void expect_consistent(const SelectionProblem& problem, const Selection& selection) {
    const bool has_choice = selection.status == SelectionStatus::kOptimal ||
                            selection.status == SelectionStatus::kFeasible;
    if (!has_choice) {
        EXPECT_TRUE(selection.choice.empty());
        return;
    }
    ASSERT_EQ(selection.choice.size(), problem.items.size());
    ASSERT_EQ(selection.gain.size(), problem.target.size());
    double objective = 0;
    std::vector<double> gain(problem.target.size(), 0.0);
    for (std::size_t i = 0; i < problem.items.size(); ++i) {
        const auto& item = problem.items[i];
        ASSERT_GE(selection.choice[i], 0);
        ASSERT_LT(selection.choice[i], static_cast<int>(item.cost.size()));
        const auto j = static_cast<std::size_t>(selection.choice[i]);
        EXPECT_TRUE(std::isfinite(item.cost[j]));
        objective += item.cost[j];
        gain[static_cast<std::size_t>(item.group)] += item.gain[j];
    }
    EXPECT_EQ(selection.objective, objective);
    EXPECT_EQ(selection.gain, gain);
    for (std::size_t g = 0; g < gain.size(); ++g) {
        EXPECT_GE(gain[g], problem.target[g] - 1e-9 * std::abs(problem.target[g]));
    }
    EXPECT_GE(selection.gap, 0);
    if (selection.status == SelectionStatus::kOptimal) {
        EXPECT_EQ(selection.gap, 0);
    }
}

// 560 layers in 4 stages with random costs, as of a 70B model with `options` precisions.
SelectionProblem large_problem(int seed, int options) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::uniform_real_distribution<double> uniform(0, 1);
    SelectionProblem problem;
    problem.target.assign(4, 0.0);
    for (int i = 0; i < 560; ++i) {
        SelectionProblem::Item item{
            .name = "layer " + std::to_string(i), .cost = {0}, .gain = {0}, .group = i / 140};
        const double work = uniform(random);
        for (int j = 1; j < options; ++j) {
            item.cost.push_back(uniform(random));
            item.gain.push_back(work * j / (options - 1));
        }
        problem.target[static_cast<std::size_t>(item.group)] += 0.6 * work;
        problem.items.push_back(std::move(item));
    }
    return problem;
}

// Cost almost in proportion to gain: hard to prove optimal.
SelectionProblem hard_problem() {
    SelectionProblem problem = large_problem(7, 4);
    for (auto& item : problem.items) {
        item.group = 0;
        for (std::size_t j = 1; j < item.cost.size(); ++j) item.cost[j] = item.gain[j] + 0.1;
    }
    problem.target = {problem.target[0] + problem.target[1] + problem.target[2] +
                      problem.target[3]};
    return problem;
}

TEST(Selection, TargetsThatAreMetExactlyAreKept) {
    const std::pair<double, double> cases[] = {{0.3, 0.4}, {0.6, 0.9},  {0.61, 1.3},
                                               {0.7, 1.3}, {0.71, 1.8}, {1.0, 1.8}};
    for (const auto& [target, cost] : cases) {
        const Selection selection = solve_selection(three_layers(target));
        ASSERT_EQ(selection.status, SelectionStatus::kOptimal) << target;
        EXPECT_NEAR(selection.objective, cost, 1e-12) << target;
        expect_consistent(three_layers(target), selection);
    }
    // 0.6 is met by the second and the third layer: 0.3 + 0.3 is just below 0.6 in some orders of
    // addition.
    EXPECT_EQ(solve_selection(three_layers(0.6)).choice, (std::vector<int>{0, 1, 1}));
    EXPECT_EQ(solve_selection(three_layers(std::nextafter(0.6, 1.0))).choice,
              (std::vector<int>{0, 1, 1}));
}

TEST(Selection, TargetBeyondAllIsInfeasibleAndSaysWhatIsPossible) {
    const Selection selection = solve_selection(three_layers(1.01));
    EXPECT_EQ(selection.status, SelectionStatus::kInfeasible);
    EXPECT_TRUE(selection.choice.empty());
    ASSERT_EQ(selection.best_gain.size(), 1u);
    EXPECT_NEAR(selection.best_gain[0], 1.0, 1e-12);
}

TEST(Selection, NegativeCostIsTakenWithoutNeed) {
    const Selection selection = solve_selection(three_layers(0, {0.9, -0.2, 0.4}));
    EXPECT_EQ(selection.status, SelectionStatus::kOptimal);
    EXPECT_EQ(selection.choice, (std::vector<int>{0, 1, 0}));
    EXPECT_EQ(selection.objective, -0.2);
}

TEST(Selection, NanIsRefusedByName) {
    const auto message = error_of(ErrorCode::kUsage, [] {
        solve_selection(three_layers(0, {0.9, kNan, 0.4}));
    });
    EXPECT_NE(message.find("layer 1"), std::string::npos) << message;
    EXPECT_NE(message.find("nan"), std::string::npos) << message;
}

TEST(Selection, InfiniteCostIsNeverChosen) {
    const Selection selection = solve_selection(three_layers(0.7, {0.9, kInf, 0.4}));
    EXPECT_EQ(selection.status, SelectionStatus::kOptimal);
    EXPECT_EQ(selection.choice, (std::vector<int>{1, 0, 1}));
    // Its gain does not count as reachable either.
    const Selection beyond = solve_selection(three_layers(0.8, {0.9, kInf, 0.4}));
    EXPECT_EQ(beyond.status, SelectionStatus::kInfeasible);
    EXPECT_NEAR(beyond.best_gain.at(0), 0.7, 1e-12);
}

TEST(Selection, MalformedProblemsAreRefusedByName) {
    const auto refused = [](const std::function<void(SelectionProblem&)>& spoil) {
        SelectionProblem problem = three_layers(0.5);
        spoil(problem);
        return error_of(ErrorCode::kUsage, [&] { solve_selection(problem); });
    };
    using Problem = SelectionProblem;
    EXPECT_NE(refused([](Problem& p) { p.items[2].cost = {}; }).find("layer 2"), std::string::npos);
    EXPECT_NE(refused([](Problem& p) { p.items[1].gain = {0}; }).find("layer 1"),
              std::string::npos);
    EXPECT_NE(refused([](Problem& p) { p.items[1].group = 1; }).find("layer 1"), std::string::npos);
    EXPECT_NE(refused([](Problem& p) { p.items[0].group = -1; }).find("layer 0"),
              std::string::npos);
    EXPECT_NE(refused([](Problem& p) { p.items[1].gain[1] = -1; }).find("layer 1"),
              std::string::npos);
    EXPECT_NE(refused([](Problem& p) { p.items[1].gain[1] = kNan; }).find("layer 1"),
              std::string::npos);
    EXPECT_NE(refused([](Problem& p) { p.items[1].cost[0] = -kInf; }).find("layer 1"),
              std::string::npos);
    EXPECT_NE(refused([](Problem& p) {
                  p.items[1].cost = {kInf, kInf};
              }).find("layer 1"),
              std::string::npos);
    EXPECT_NE(refused([](Problem& p) { p.target[0] = kNan; }).find("group 0"), std::string::npos);
    error_of(ErrorCode::kUsage,
             [] { solve_selection(three_layers(0.5), {.seconds = 0, .gap = 0}); });
    error_of(ErrorCode::kUsage,
             [] { solve_selection(three_layers(0.5), {.seconds = 1, .gap = -1}); });
}

TEST(Selection, NothingToChooseIsOptimal) {
    EXPECT_EQ(solve_selection({}).status, SelectionStatus::kOptimal);
    SelectionProblem no_items;
    no_items.target = {0.5};
    EXPECT_EQ(solve_selection(no_items).status, SelectionStatus::kInfeasible);
}

// A random problem small enough to enumerate, with ties, zeros, negative and infinite costs.
SelectionProblem random_problem(std::mt19937& random) {
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    SelectionProblem problem;
    const int groups = 1 + below(3);
    const int kind = below(4);
    problem.target.assign(static_cast<std::size_t>(groups), 0.0);
    const int items = 3 + below(5);
    for (int i = 0; i < items; ++i) {
        SelectionProblem::Item item{.name = "item", .cost = {}, .gain = {}, .group = below(groups)};
        const int options = 2 + below(3);
        for (int j = 0; j < options; ++j) {
            double cost = 0;
            if (kind == 0) cost = below(4);                                  // ties
            if (kind == 1) cost = (below(2001) - 1000) / 1000.0;             // negative too
            if (kind == 2) cost = std::exp(below(30000) / 1000.0 - 20.0);    // many magnitudes
            if (kind == 3) cost = below(5) == 0 ? 0.0 : below(1000) * 1e-9;  // tiny
            if (j > 0 && below(8) == 0) cost = kInf;
            item.cost.push_back(cost);
            item.gain.push_back(below(20) / 8.0 * (kind == 1 ? 0.1 : 1.0));
        }
        problem.items.push_back(std::move(item));
    }
    // The target is what some choice gains exactly, or anything up to beyond the possible.
    for (std::size_t g = 0; g < problem.target.size(); ++g) {
        double exact = 0, most = 0;
        for (const auto& item : problem.items) {
            if (static_cast<std::size_t>(item.group) != g) continue;
            exact += item.gain[static_cast<std::size_t>(below(static_cast<int>(item.gain.size())))];
            most += *std::max_element(item.gain.begin(), item.gain.end());
        }
        problem.target[g] = below(2) == 0 ? exact : most * below(11) / 10.0 * 1.02;
    }
    return problem;
}

TEST(Selection, AgreesWithEnumeration) {
    std::mt19937 random(20240607);
    int feasible = 0;
    for (int trial = 0; trial < 600; ++trial) {
        SCOPED_TRACE(trial);
        const SelectionProblem problem = random_problem(random);
        const Selection exact = enumerate_selection(problem);
        const Selection solved = solve_selection(problem);
        ASSERT_EQ(solved.status, exact.status);
        EXPECT_EQ(solved.best_gain, exact.best_gain);
        expect_consistent(problem, solved);
        expect_consistent(problem, exact);
        if (exact.status != SelectionStatus::kOptimal) continue;
        ++feasible;
        EXPECT_NEAR(solved.objective, exact.objective, 1e-9 * std::abs(exact.objective) + 1e-18);
    }
    EXPECT_GT(feasible, 300);
    EXPECT_LT(feasible, 600);
}

TEST(Selection, OneHugeCostDoesNotHideTheOthers) {
    for (const double huge : {1e3, 1e12, 1e90}) {
        SelectionProblem problem;
        problem.target = {4.0};
        for (int i = 0; i < 8; ++i) {
            problem.items.push_back({.name = "item",
                                     .cost = {0, i == 3 ? huge : 1e-7 * (i + 1) * (i + 1)},
                                     .gain = {0, 1.0},
                                     .group = 0});
        }
        const Selection selection = solve_selection(problem);
        EXPECT_EQ(selection.status, SelectionStatus::kOptimal);
        EXPECT_EQ(selection.choice, (std::vector<int>{1, 1, 1, 0, 1, 0, 0, 0})) << huge;
    }
}

// The solver takes 1e-11 of the target for nothing; we do not. The cheap choices miss the target by
// less.
TEST(Selection, ToleranceOfTheSolverIsNotOurs) {
    SelectionProblem problem;
    problem.target = {1.0};
    const double just_short = (1 - 1e-9) * (1 - 2e-12);
    for (int i = 0; i < 6; ++i) {
        problem.items.push_back(
            {.name = "short", .cost = {0, 1.0 + i}, .gain = {0, just_short}, .group = 0});
    }
    problem.items.push_back({.name = "enough", .cost = {0, 2.5}, .gain = {0, 1.0}, .group = 0});
    const Selection selection = solve_selection(problem);
    EXPECT_EQ(selection.status, SelectionStatus::kOptimal);
    EXPECT_EQ(selection.choice, enumerate_selection(problem).choice);
    EXPECT_EQ(selection.objective, 2.5);
}

TEST(Selection, EnumerationRefusesWhatIsTooLarge) {
    error_of(ErrorCode::kUsage, [] { enumerate_selection(large_problem(1, 2)); });
}

TEST(Selection, LargeProblemsAreSolvedToTheOptimum) {
    for (const int options : {2, 4}) {
        const SelectionProblem problem = large_problem(1, options);
        const Selection selection = solve_selection(problem, {.seconds = 60, .gap = 0});
        EXPECT_EQ(selection.status, SelectionStatus::kOptimal);
        expect_consistent(problem, selection);
        RecordProperty("milliseconds_" + std::to_string(options) + "_options",
                       std::to_string(1e3 * selection.seconds));
    }
}

TEST(Selection, TimeLimitNeverGivesHalfAnAnswer) {
    const Selection reference = solve_selection(hard_problem(), {.seconds = 20, .gap = 1e-5});
    ASSERT_FALSE(reference.choice.empty());
    for (const double seconds : {1e-9, 0.001, 0.01, 0.03, 0.1, 1.0}) {
        const SelectionProblem hard = hard_problem();
        const Selection selection = solve_selection(hard, {.seconds = seconds, .gap = 0});
        expect_consistent(hard, selection);
        EXPECT_LT(selection.seconds, seconds + 10.0);
        if (!selection.choice.empty()) {
            // The gap is honest: the optimum is not below objective - gap * objective.
            EXPECT_LE(selection.objective * (1 - selection.gap), reference.objective * (1 + 1e-9));
        }
        const SelectionProblem easy = large_problem(3, 4);
        expect_consistent(easy, solve_selection(easy, {.seconds = seconds, .gap = 0}));
    }
}

TEST(Selection, WithoutTimeThereIsNoSolution) {
    const Selection selection = solve_selection(large_problem(2, 4), {.seconds = 1e-9, .gap = 0});
    EXPECT_EQ(selection.status, SelectionStatus::kNoSolution);
    EXPECT_TRUE(selection.choice.empty());
    EXPECT_EQ(status_name(selection.status), "no solution");
    for (const SelectionStatus status :
         {SelectionStatus::kOptimal, SelectionStatus::kFeasible, SelectionStatus::kNoSolution,
          SelectionStatus::kInfeasible}) {
        EXPECT_EQ(status_from_name(status_name(status)), status);
    }
    EXPECT_THROW(status_from_name("optimum"), Error);
}

TEST(Selection, GapIsKept) {
    const SelectionProblem problem = hard_problem();
    const Selection selection = solve_selection(problem, {.seconds = 60, .gap = 1e-3});
    EXPECT_EQ(selection.status, SelectionStatus::kOptimal);
    EXPECT_LE(selection.gap, 1e-3 + 1e-6);
}

TEST(Selection, RepeatsAndRunsInSeveralThreads) {
    const SelectionProblem problem = large_problem(5, 3);
    const Selection first = solve_selection(problem, {.seconds = 60, .gap = 0});
    std::vector<Selection> results(4);
    std::vector<std::thread> threads;
    for (Selection& result : results) {
        threads.emplace_back([&] { result = solve_selection(problem, {.seconds = 60, .gap = 0}); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Selection& result : results) {
        EXPECT_EQ(result.status, SelectionStatus::kOptimal);
        EXPECT_EQ(result.choice, first.choice);
    }
}

TEST(Selection, IsSilent) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    solve_selection(large_problem(4, 4), {.seconds = 60, .gap = 0});
    solve_selection(hard_problem(), {.seconds = 0.05, .gap = 0});
    solve_selection(three_layers(0.6));
    std::fflush(nullptr);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace subbyte::plan
