// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/refine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "subbyte/core/error.h"
#include "subbyte/plan/linear_belief.h"

namespace subbyte::plan {
namespace {

TEST(LinearBelief, NarrowsAsBayesSays) {
    LinearBelief belief({1.0, 2.0, 5.0}, {1.0, 2.0, 0.0});
    // a + b = 6, variance 5: the surprise of 3 has variance 1 + 4 + 5.
    belief.observe({{0, 1.0}, {1, 1.0}, {2, 0.0}}, 6.0, 5.0);
    EXPECT_NEAR(belief.mean(0), 1.0 + 3 * 1.0 / 10, 1e-12);
    EXPECT_NEAR(belief.mean(1), 2.0 + 3 * 4.0 / 10, 1e-12);
    EXPECT_EQ(belief.mean(2), 5.0);
    EXPECT_NEAR(belief.deviation(0), std::sqrt(1 - 1.0 / 10), 1e-12);
    EXPECT_NEAR(belief.deviation(1), std::sqrt(4 - 16.0 / 10), 1e-12);
    EXPECT_EQ(belief.deviation(2), 0);
    // They are now correlated, by -4 / 10: a sum that is known but for little fixes b by a.
    belief.observe({{0, 1.0}}, 0.0, 0.1);
    EXPECT_NEAR(belief.mean(0), 1.3 - 1.3 * 0.9 / 1.0, 1e-12);
    EXPECT_NEAR(belief.mean(1), 3.2 + 1.3 * 0.4 / 1.0, 1e-12);
    EXPECT_THROW(LinearBelief({1.0}, {1.0, 2.0}), Error);
}

// A loss with interactions that the costs know nothing of.
struct Synthetic {
    SelectionProblem problem;
    std::vector<std::vector<double>> alone;     // [item][option]
    std::vector<std::vector<double>> together;  // [item][item], when both take the last option

    Synthetic(unsigned seed, std::size_t items, std::size_t options, double target) {
        std::mt19937 random(seed);
        std::uniform_real_distribution<double> u(0.2, 1.8);
        std::normal_distribution<double> normal;
        for (std::size_t i = 0; i < items; ++i) {
            SelectionProblem::Item item;
            item.name = "item " + std::to_string(i);
            alone.emplace_back();
            for (std::size_t o = 0; o < options; ++o) {
                const double expected = 0.01 * u(random) * double(o);
                item.cost.push_back(expected);
                item.gain.push_back((1.0 + double(i % 3)) * double(o));
                alone.back().push_back(expected * u(random));
            }
            problem.items.push_back(item);
            together.emplace_back();
            for (std::size_t j = 0; j < items; ++j)
                together.back().push_back(4e-3 * normal(random));
        }
        double most = 0;
        for (const auto& item : problem.items) most += item.gain.back();
        problem.target = {target * most};
    }

    double loss(const std::vector<int>& choice) const {
        double sum = 3.0;
        for (std::size_t i = 0; i < choice.size(); ++i) {
            sum += alone[i][static_cast<std::size_t>(choice[i])];
            for (std::size_t j = 0; j < i; ++j) {
                const int last = static_cast<int>(alone[i].size()) - 1;
                if (choice[i] == last && choice[j] == last) sum += together[i][j];
            }
        }
        return sum;
    }

    bool reaches(const std::vector<int>& choice) const {
        double gain = 0;
        for (std::size_t i = 0; i < choice.size(); ++i) {
            gain += problem.items[i].gain[static_cast<std::size_t>(choice[i])];
        }
        return gain >= problem.target[0] * (1 - 1e-9);
    }

    double best() const {
        std::vector<int> choice(problem.items.size(), 0);
        double best = std::numeric_limits<double>::infinity();
        while (true) {
            if (reaches(choice)) best = std::min(best, loss(choice));
            std::size_t i = 0;
            while (i < choice.size() && ++choice[i] == static_cast<int>(alone[i].size())) {
                choice[i++] = 0;
            }
            if (i == choice.size()) return best;
        }
    }
};

// Of all choices: 2^12 and 3^8. The search sees 120 of them.
TEST(Refine, ComesNearTheBestOfAllChoices) {
    for (const std::size_t options : {2u, 3u}) {
        double gained = 0, possible = 0;
        for (unsigned seed = 1; seed <= 8; ++seed) {
            SCOPED_TRACE(seed);
            const Synthetic model(seed, options == 2 ? 12 : 8, options, 0.6);
            const std::vector<int> start = solve_selection(model.problem).choice;
            int calls = 0;
            const auto loss = [&](const std::vector<int>& choice) {
                ++calls;
                return model.loss(choice);
            };
            const RefineOptions few{.evaluations = 120, .moves = 6, .seed = seed};
            const Refinement result = refine_selection(model.problem, start, loss, few);
            EXPECT_EQ(result.evaluations, calls);
            EXPECT_LE(calls, 120);
            EXPECT_TRUE(model.reaches(result.choice));
            EXPECT_EQ(result.start_loss, model.loss(start));
            EXPECT_EQ(result.loss, model.loss(result.choice));
            EXPECT_LE(result.loss, result.start_loss);
            EXPECT_EQ(refine_selection(model.problem, start, loss, few).choice, result.choice);
            gained += result.start_loss - result.loss;
            possible += result.start_loss - model.best();
        }
        RecordProperty("gained_" + std::to_string(options), std::to_string(gained / possible));
        EXPECT_GT(possible, 0.05);
        EXPECT_GT(gained / possible, 0.9) << options << " options";
    }
}

// The true effect of every change alone, as hints: the first few plans are better for it.
TEST(Refine, HintsLeadTheSearch) {
    double with = 0, without = 0;
    for (unsigned seed = 1; seed <= 8; ++seed) {
        const Synthetic model(seed, 40, 2, 0.6);
        const std::vector<int> start = solve_selection(model.problem).choice;
        RefineOptions options{.evaluations = 12, .moves = 6, .seed = seed};
        const auto loss = [&](const std::vector<int>& choice) { return model.loss(choice); };
        const auto gain = [&] {
            const Refinement result = refine_selection(model.problem, start, loss, options);
            EXPECT_TRUE(model.reaches(result.choice));
            return result.start_loss - result.loss;
        };
        without += gain();
        for (std::size_t i = 0; i < start.size(); ++i) {
            options.hints.emplace_back();
            for (int o = 0; o < 2; ++o) {
                std::vector<int> choice = start;
                choice[i] = o;
                options.hints.back().push_back({.change = model.loss(choice) - model.loss(start)});
            }
        }
        with += gain();
    }
    RecordProperty("with", std::to_string(with));
    RecordProperty("without", std::to_string(without));
    EXPECT_GT(with, 1.3 * without);
}

// Items that the loss does not see share the target with those that it does.
TEST(Refine, WhatTheLossDoesNotSeeFollowsFromItsCost) {
    constexpr std::size_t kSeen = 8;
    double gained = 0, possible = 0;
    for (unsigned seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE(seed);
        // The loss is that of the first items; the second half of them is blind.
        const Synthetic model(seed, 2 * kSeen, 2, 0.6);
        const auto seen = [&](std::vector<int> choice) {
            for (std::size_t i = kSeen; i < choice.size(); ++i) choice[i] = 0;
            return model.loss(choice);
        };
        RefineOptions options{.evaluations = 80, .moves = 4, .seed = seed};
        for (std::size_t i = 0; i < 2 * kSeen; ++i) {
            options.unseen.push_back(i < kSeen ? std::vector<double>(2, 0.0)
                                               : model.problem.items[i].cost);
        }
        const auto blind = [&](const std::vector<int>& choice) {
            double sum = 0;
            for (std::size_t i = kSeen; i < choice.size(); ++i) {
                sum += model.problem.items[i].cost[static_cast<std::size_t>(choice[i])];
            }
            return sum;
        };
        const std::vector<int> start = solve_selection(model.problem).choice;
        const Refinement result = refine_selection(model.problem, start, seen, options);
        EXPECT_TRUE(model.reaches(result.choice));
        EXPECT_EQ(result.loss, seen(result.choice));
        EXPECT_LE(result.loss, result.start_loss);
        ASSERT_GT(blind(start), 0);
        const double scale = result.start_unseen / blind(start);
        EXPECT_NEAR(result.unseen, scale * blind(result.choice), 1e-12);
        // Of all choices of both kinds.
        const double before = result.start_loss + result.start_unseen;
        const double after = result.loss + result.unseen;
        double best = before;
        for (unsigned bits = 0; bits < 1u << (2 * kSeen); ++bits) {
            std::vector<int> choice;
            for (std::size_t i = 0; i < 2 * kSeen; ++i) choice.push_back(int(bits >> i & 1));
            if (!model.reaches(choice) || seen(choice) > result.start_loss) continue;
            best = std::min(best, seen(choice) + scale * blind(choice));
        }
        EXPECT_LE(after, before);
        gained += before - after;
        possible += before - best;
    }
    RecordProperty("gained", std::to_string(gained / possible));
    EXPECT_GT(possible, 0.02);
    EXPECT_GT(gained / possible, 0.8);
}

TEST(Refine, WithNothingToGainTheStartStays) {
    const Synthetic model(1, 10, 2, 0.5);
    const std::vector<int> start = solve_selection(model.problem).choice;
    // The costs are the truth.
    const auto loss = [&](const std::vector<int>& choice) {
        double sum = 0;
        for (std::size_t i = 0; i < choice.size(); ++i) {
            sum += model.problem.items[i].cost[static_cast<std::size_t>(choice[i])];
        }
        return sum;
    };
    EXPECT_EQ(refine_selection(model.problem, start, loss, {.evaluations = 60}).choice, start);
    // No evaluations, one, and one more: the start, without a search.
    for (const int evaluations : {0, 1, 2}) {
        const Refinement result =
            refine_selection(model.problem, start, loss, {.evaluations = evaluations});
        EXPECT_EQ(result.choice, start);
        EXPECT_LE(result.evaluations, std::min(evaluations, 1));
    }
    // One choice only.
    SelectionProblem full = model.problem;
    full.target[0] *= 2;
    const std::vector<int> all(full.items.size(), 1);
    const Refinement only = refine_selection(full, all, loss, {.evaluations = 50});
    EXPECT_EQ(only.choice, all);
    EXPECT_EQ(only.evaluations, 2);
}

TEST(Refine, BadStartsAndCostsAreRefused) {
    Synthetic model(1, 3, 2, 0.5);
    const auto loss = [&](const std::vector<int>& choice) { return model.loss(choice); };
    std::vector<std::vector<Hint>> hints;
    const auto refused = [&](const std::vector<int>& start, const std::string& part) {
        try {
            refine_selection(model.problem, start, loss, {.evaluations = 5, .hints = hints});
        } catch (const Error& error) {
            return error.code() == ErrorCode::kUsage &&
                   std::string(error.what()).find(part) != std::string::npos;
        }
        return false;
    };
    EXPECT_TRUE(refused({1, 1}, "3 items"));
    EXPECT_TRUE(refused({1, 2, 1}, "'item 1'"));
    EXPECT_TRUE(refused({1, -1, 1}, "-1"));
    hints = {{{}, {}}, {{}, {}}};
    EXPECT_TRUE(refused({1, 1, 1}, "hints for 2"));
    hints = {{{}, {}}, {{}, {}}, {{}}};
    EXPECT_TRUE(refused({1, 1, 1}, "'item 2' has 2 options and 1 hints"));
    hints.clear();
    model.problem.items[2].cost[1] = std::numeric_limits<double>::infinity();
    EXPECT_TRUE(refused({1, 1, 1}, "'item 2'"));
}

}  // namespace
}  // namespace subbyte::plan
