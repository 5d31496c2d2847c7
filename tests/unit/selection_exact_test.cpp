// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Selections of the size of a 70B model against two exact methods of another kind, written here:
// enumeration of how many layers of each size class go low (two options), and dynamic programming
// over whole units of gain (any options).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "subbyte/core/error.h"
#include "subbyte/plan/selection.h"

namespace subbyte::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// FLOPs of q, k, v, o, gate, up, down of the 70B shape, in units of k.
constexpr std::array<int, 7> kUnits{8, 1, 1, 8, 28, 28, 28};

// Two options per layer, two choices of the layer's work. Inside a class of equal work an optimum
// takes the layers with the smallest differences of cost, so the number taken per class is all
// there is to enumerate; negative differences are taken anyway.
double by_classes(const SelectionProblem& problem) {
    std::array<std::vector<double>, 3> difference;  // per class: 1, 8, 28 units
    double base = 0;
    for (const auto& item : problem.items) {
        base += item.cost[0];
        const std::size_t c = item.gain[1] == 1 ? 0 : item.gain[1] == 8 ? 1 : 2;
        difference[c].push_back(item.cost[1] - item.cost[0]);
    }
    std::array<std::vector<double>, 3> sums;
    for (std::size_t c = 0; c < 3; ++c) {
        std::sort(difference[c].begin(), difference[c].end());
        sums[c] = {0};
        for (const double d : difference[c]) sums[c].push_back(sums[c].back() + d);
    }
    double best = kNever;
    for (std::size_t a = 0; a < sums[0].size(); ++a) {
        for (std::size_t b = 0; b < sums[1].size(); ++b) {
            for (std::size_t c = 0; c < sums[2].size(); ++c) {
                const double gain = double(a) + 8.0 * double(b) + 28.0 * double(c);
                if (gain >= problem.target[0])
                    best = std::min(best, sums[0][a] + sums[1][b] + sums[2][c]);
            }
        }
    }
    return base + best;
}

// Gains and targets are whole numbers: least cost for every sum of gains, capped at the target.
double by_programming(const SelectionProblem& problem) {
    double total = 0;
    for (std::size_t group = 0; group < problem.target.size(); ++group) {
        const auto need = static_cast<std::size_t>(std::max(0.0, std::ceil(problem.target[group])));
        std::vector<double> least(need + 1, kNever);
        least[0] = 0;
        for (const auto& item : problem.items) {
            if (static_cast<std::size_t>(item.group) != group) continue;
            std::vector<double> next(need + 1, kNever);
            for (std::size_t g = 0; g <= need; ++g) {
                if (least[g] == kNever) continue;
                for (std::size_t j = 0; j < item.cost.size(); ++j) {
                    const auto sum = std::min(need, g + static_cast<std::size_t>(item.gain[j]));
                    next[sum] = std::min(next[sum], least[g] + item.cost[j]);
                }
            }
            least = std::move(next);
        }
        total += least[need];
    }
    return total;
}

struct Shape {
    int blocks = 80, slots = 1, stages = 1;
    std::vector<int> gain_quarters{0, 4};  // per option, in quarters of the layer's work
    double target = 0.5;                   // of the largest gain
    int kind = 0;                          // 0 plain, 1 ties, 2 negative differences too
};

SelectionProblem instance(const Shape& shape, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    SelectionProblem problem;
    problem.target.assign(static_cast<std::size_t>(shape.stages), 0.0);
    const int most = *std::max_element(shape.gain_quarters.begin(), shape.gain_quarters.end());
    for (int b = 0; b < shape.blocks; ++b) {
        for (const int units : kUnits) {
            for (int s = 0; s < shape.slots; ++s) {
                SelectionProblem::Item item;
                item.name = "item";
                item.group = b * shape.stages / shape.blocks;
                const double scale = std::exp(normal(random));
                for (const int quarters : shape.gain_quarters) {
                    double cost = scale * (quarters + 0.2) * std::exp(0.3 * normal(random));
                    if (shape.kind == 1) cost = std::round(cost);
                    if (shape.kind == 2) cost -= 1.5;
                    item.cost.push_back(cost);
                    item.gain.push_back(
                        units * (shape.gain_quarters.size() == 2 ? quarters / 4 : quarters));
                }
                problem.target[static_cast<std::size_t>(item.group)] += std::floor(
                    shape.target * units * (shape.gain_quarters.size() == 2 ? most / 4 : most));
                problem.items.push_back(std::move(item));
            }
        }
    }
    return problem;
}

// `near_too`: within a gap as well; it is relative to the cost above that of the cheapest choice,
// which is not the objective when costs are negative.
void expect_optimum(const SelectionProblem& problem, double known, bool near_too) {
    const Selection selection = solve_selection(problem, {.seconds = 60, .gap = 0});
    EXPECT_EQ(selection.status, SelectionStatus::kOptimal);
    EXPECT_NEAR(selection.objective, known, 1e-9 * std::abs(known));
    for (std::size_t g = 0; g < problem.target.size(); ++g) {
        EXPECT_GE(selection.gain[g], problem.target[g] - 1e-9 * problem.target[g]);
    }
    if (!near_too) return;
    const Selection near = solve_selection(problem, {.seconds = 60, .gap = 1e-4});
    EXPECT_EQ(near.status, SelectionStatus::kOptimal);
    EXPECT_LE(near.gap, 1.01e-4);
    EXPECT_LE(near.objective - known, 1e-4 * std::abs(near.objective) + 1e-12);
}

TEST(SelectionExact, TwoOptionsAgreeWithClassEnumeration) {
    for (unsigned seed = 1; seed <= 8; ++seed) {
        for (const double target : {0.0, 0.3, 0.5, 0.75, 1.0}) {
            for (int kind = 0; kind < 3; ++kind) {
                Shape shape{.blocks = seed > 4 ? 80 : 22, .gain_quarters = {0, 4}};
                shape.target = target;
                shape.kind = kind;
                const SelectionProblem problem = instance(shape, seed);
                SCOPED_TRACE(testing::Message() << seed << " " << target << " " << kind);
                expect_optimum(problem, by_classes(problem), kind != 2);
            }
        }
    }
}

TEST(SelectionExact, SixOptionsAndStagesAgreeWithDynamicProgramming) {
    for (unsigned seed = 1; seed <= 2; ++seed) {
        for (const double target : {0.3, 0.5, 0.75}) {
            for (int kind = 0; kind < 3; ++kind) {
                Shape shape{.blocks = 40, .stages = 4, .gain_quarters = {0, 2, 2, 3, 3, 4}};
                shape.target = target;
                shape.kind = kind;
                const SelectionProblem problem = instance(shape, seed);
                SCOPED_TRACE(testing::Message() << seed << " " << target << " " << kind);
                expect_optimum(problem, by_programming(problem), kind != 2);
            }
        }
    }
}

// What docs/design says about time: 70B, six options, eight stages, layers and GEMMs.
TEST(SelectionExact, SeventyBillionParametersTakeMilliseconds) {
    for (const int slots : {1, 3}) {
        for (const int stages : {1, 8}) {
            for (const double target : {0.3, 0.5, 0.75}) {
                Shape shape{.slots = slots, .stages = stages, .gain_quarters = {0, 2, 2, 3, 3, 3}};
                shape.target = target;
                const SelectionProblem problem = instance(shape, 1);
                ASSERT_EQ(problem.items.size(), 560u * static_cast<unsigned>(slots));
                const Selection selection = solve_selection(problem, {.seconds = 60, .gap = 1e-4});
                EXPECT_EQ(selection.status, SelectionStatus::kOptimal);
                EXPECT_LE(selection.gap, 1.01e-4);
                EXPECT_LT(selection.seconds, 5.0);
                RecordProperty("milliseconds_" + std::to_string(problem.items.size()) + "_" +
                                   std::to_string(stages) + "_" + std::to_string(target),
                               std::to_string(1e3 * selection.seconds));
            }
        }
    }
}

TEST(SelectionExact, GainsWithoutACommonUnitAreSolvedToo) {
    std::mt19937 random(5);
    std::uniform_real_distribution<double> uniform(0.5, 1.5);
    for (const int slots : {1, 3}) {
        SelectionProblem problem =
            instance({.slots = slots, .stages = 2, .gain_quarters = {0, 2, 2, 3, 3, 3}}, 2);
        for (auto& item : problem.items) {
            for (double& gain : item.gain) gain *= uniform(random);
        }
        const Selection selection = solve_selection(problem, {.seconds = 60, .gap = 1e-4});
        EXPECT_EQ(selection.status, SelectionStatus::kOptimal);
        EXPECT_LT(selection.seconds, 5.0);
        const Selection exact = solve_selection(problem, {.seconds = 60, .gap = 0});
        EXPECT_LE(exact.objective, selection.objective);
        EXPECT_GE(exact.objective, selection.objective * (1 - 1.01e-4));
    }
}

TEST(SelectionExact, AStartIsTakenUp) {
    const SelectionProblem problem =
        instance({.blocks = 22, .stages = 2, .gain_quarters = {0, 2, 3}}, 3);
    const Selection cold = solve_selection(problem, {.seconds = 60, .gap = 0});
    SelectionProblem warm = problem;
    warm.start = cold.choice;
    EXPECT_EQ(solve_selection(warm, {.seconds = 60, .gap = 0}).objective, cold.objective);
    // Without time it is all there is, with a gap that is no promise.
    const Selection late = solve_selection(warm, {.seconds = 1e-9, .gap = 0});
    EXPECT_EQ(late.status, SelectionStatus::kFeasible);
    EXPECT_EQ(late.choice, cold.choice);
    EXPECT_GT(late.gap, 0);
    // A start that misses the target, or has holes, does no harm.
    warm.start.assign(problem.items.size(), 0);
    EXPECT_EQ(solve_selection(warm, {.seconds = 60, .gap = 0}).objective, cold.objective);
    warm.start.assign(problem.items.size(), -1);
    EXPECT_EQ(solve_selection(warm, {.seconds = 60, .gap = 0}).objective, cold.objective);
    for (const int bad : {-2, 3}) {
        warm.start[5] = bad;
        EXPECT_THROW(solve_selection(warm), Error);
    }
    warm.start = {0, 1};
    EXPECT_THROW(solve_selection(warm), Error);
}

TEST(SelectionExact, TiesAreBrokenByTheRule) {
    SelectionProblem problem;
    problem.target = {2.5};
    for (int i = 0; i < 5; ++i) {
        problem.items.push_back(
            {.name = "alike", .cost = {0, 1, 1, 1}, .gain = {0, 0.5, 1, 1}, .group = 0});
    }
    // Three of five alike: the first three, and of their options the first with the most gain.
    EXPECT_EQ(solve_selection(problem, {.seconds = 10, .gap = 0}).choice,
              (std::vector<int>{2, 2, 2, 0, 0}));
    // Options that are all equal: the first.
    problem.target = {0};
    for (auto& item : problem.items) {
        item.cost = {1, 1, 1};
        item.gain = {0, 0, 0};
    }
    EXPECT_EQ(solve_selection(problem).choice, (std::vector<int>(5, 0)));
}

}  // namespace
}  // namespace subbyte::plan
