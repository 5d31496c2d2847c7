// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"
#include "subbyte/plan/cbc_solver.h"
#include "subbyte/plan/cover_search.h"

namespace subbyte::plan {
namespace {

using Item = SelectionProblem::Item;

// Keeps every sum and difference finite.
constexpr double kLargest = 1e100;

// The target that gains are compared with.
double tolerant(double target) { return target - 1e-9 * std::abs(target); }

bool usable(const Item& item, std::size_t option) { return std::isfinite(item.cost[option]); }

void check_item(const Item& item, std::size_t index, std::size_t groups) {
    const std::string name = item.name.empty() ? fmt::format("item {}", index) : item.name;
    const auto fail = [&](const std::string& what, const char* hint) {
        throw Error(ErrorCode::kUsage, fmt::format("selection: {}: {}", name, what), hint);
    };
    if (item.cost.empty()) fail("has no options", "give every item at least one option");
    if (item.cost.size() != item.gain.size()) {
        fail(fmt::format("{} costs but {} gains", item.cost.size(), item.gain.size()),
             "every option needs one cost and one gain");
    }
    if (item.group < 0 || static_cast<std::size_t>(item.group) >= groups) {
        fail(fmt::format("group {} but there are {} targets", item.group, groups),
             "groups count from 0, one target each");
    }
    bool any = false;
    for (std::size_t j = 0; j < item.cost.size(); ++j) {
        if (!(item.cost[j] >= -kLargest) || (usable(item, j) && item.cost[j] > kLargest)) {
            fail(fmt::format("cost of option {} is {}", j, item.cost[j]),
                 "a cost is a number below 1e100, or +Inf for an option that must not be chosen");
        }
        if (!(item.gain[j] >= 0 && item.gain[j] <= kLargest)) {
            fail(fmt::format("gain of option {} is {}", j, item.gain[j]),
                 "a gain is a number from 0 to 1e100");
        }
        any = any || usable(item, j);
    }
    if (!any) fail("every option costs +Inf", "leave at least one option that may be chosen");
}

void check_start(const SelectionProblem& problem) {
    if (problem.start.empty()) return;
    if (problem.start.size() != problem.items.size()) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("selection: a start for {} items, but there are {}",
                                problem.start.size(), problem.items.size()),
                    "one option per item, -1 for none");
    }
    for (std::size_t i = 0; i < problem.items.size(); ++i) {
        const auto options = static_cast<int>(problem.items[i].cost.size());
        if (problem.start[i] >= -1 && problem.start[i] < options) continue;
        throw Error(ErrorCode::kUsage,
                    fmt::format("selection: the start has option {} for item {}, which has {}",
                                problem.start[i], i, options),
                    "options count from 0; -1: none");
    }
}

// Checks the problem and returns the largest reachable gain per group.
std::vector<double> checked_best_gain(const SelectionProblem& problem) {
    for (std::size_t g = 0; g < problem.target.size(); ++g) {
        if (!(std::abs(problem.target[g]) <= kLargest)) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("selection: target of group {} is {}", g, problem.target[g]),
                        "targets are numbers below 1e100");
        }
    }
    std::vector<double> best(problem.target.size(), 0.0);
    for (std::size_t i = 0; i < problem.items.size(); ++i) {
        const Item& item = problem.items[i];
        check_item(item, i, problem.target.size());
        double most = 0;
        for (std::size_t j = 0; j < item.cost.size(); ++j) {
            if (usable(item, j)) most = std::max(most, item.gain[j]);
        }
        best[static_cast<std::size_t>(item.group)] += most;
    }
    check_start(problem);
    return best;
}

bool reachable(const SelectionProblem& problem, const std::vector<double>& best_gain) {
    for (std::size_t g = 0; g < problem.target.size(); ++g) {
        if (best_gain[g] < tolerant(problem.target[g])) return false;
    }
    return true;
}

// Fills objective and gains from the choice.
void recompute(const SelectionProblem& problem, Selection& selection) {
    selection.objective = 0;
    selection.gain.assign(problem.target.size(), 0.0);
    for (std::size_t i = 0; i < problem.items.size(); ++i) {
        const Item& item = problem.items[i];
        const auto j = static_cast<std::size_t>(selection.choice[i]);
        selection.objective += item.cost[j];
        selection.gain[static_cast<std::size_t>(item.group)] += item.gain[j];
    }
}

// Options worth taking: each cheaper than every option with as much gain or more. Cheapest first.
std::vector<std::size_t> efficient_options(const Item& item) {
    std::vector<std::size_t> order(item.cost.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return item.gain[a] != item.gain[b] ? item.gain[a] > item.gain[b]
                                            : item.cost[a] < item.cost[b];
    });
    std::vector<std::size_t> kept;
    double least = std::numeric_limits<double>::infinity();
    for (const std::size_t j : order) {
        if (item.cost[j] >= least) continue;
        least = item.cost[j];
        kept.push_back(j);
    }
    std::reverse(kept.begin(), kept.end());
    return kept;
}

// Items that are alike get their options in order: those with more gain first.
void order_alike_items(const SelectionProblem& problem, std::vector<int>& choice) {
    const auto alike = [&](const Item& a, const Item& b) {
        return std::tie(a.group, a.cost, a.gain) == std::tie(b.group, b.cost, b.gain);
    };
    std::vector<std::size_t> order(problem.items.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const Item &x = problem.items[a], &y = problem.items[b];
        return std::tie(x.group, x.cost, x.gain) < std::tie(y.group, y.cost, y.gain);
    });
    for (std::size_t first = 0; first < order.size();) {
        const Item& item = problem.items[order[first]];
        std::vector<int> options;
        std::size_t end = first;
        for (; end < order.size() && alike(problem.items[order[end]], item); ++end) {
            options.push_back(choice[order[end]]);
        }
        std::stable_sort(options.begin(), options.end(), [&](int a, int b) {
            return item.gain[static_cast<std::size_t>(a)] > item.gain[static_cast<std::size_t>(b)];
        });
        for (std::size_t i = first; i < end; ++i) choice[order[i]] = options[i - first];
        first = end;
    }
}

struct GroupResult {
    bool found = true, proven = true;
    double excess = 0;  // how much cheaper the optimum of this group may be
};

// Where the search begins in the set of an item whose first column is `first` + 1 (options without
// the base, cheapest first): the cheapest option worth taking with at least the gain of `option`.
int start_column(const Item& item, const std::vector<std::size_t>& options, int option, int first) {
    if (option < 0 || !usable(item, static_cast<std::size_t>(option))) return -1;
    std::size_t o = 0;
    while (item.gain[options[o]] < item.gain[static_cast<std::size_t>(option)]) ++o;
    return o == 0 ? -1 : first + static_cast<int>(o);
}

// Searches by dynamic programming, and where that ends unproven (many partial choices of about the
// same cost) lets CBC go on for the rest of the time.
CoverSolution solve(const CoverProblem& cover, const std::vector<int>& start, double seconds,
                    double gap) {
    const auto begin = std::chrono::steady_clock::now();
    CoverSolution solution = search_cover(cover, start, 0.5 * seconds, gap);
    const double used =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (solution.proven || used >= seconds) return solution;
    const CoverSolution other = solve_cover(cover, seconds - used, gap);
    const double bound = std::max(solution.bound, other.bound);
    if (other.found && (!solution.found || other.cost < solution.cost)) solution = other;
    if (!solution.found) return solution;
    solution.bound = std::min(bound, solution.cost);
    solution.proven = solution.cost - solution.bound <= (gap + 1e-6) * solution.cost;
    if (solution.proven && gap == 0) solution.bound = solution.cost;
    return solution;
}

// Chooses for the items of one group: every item starts with its cheapest option, and the solver
// buys the upgrades that are needed to reach the target.
GroupResult solve_group(const SelectionProblem& problem, std::size_t group, double seconds,
                        double gap, std::vector<int>& choice) {
    CoverProblem cover;
    std::vector<std::size_t> option_of_column, item_of_set;
    std::vector<int> start;
    double start_gain = 0;
    for (std::size_t i = 0; i < problem.items.size(); ++i) {
        const Item& item = problem.items[i];
        if (static_cast<std::size_t>(item.group) != group) continue;
        const std::vector<std::size_t> options = efficient_options(item);
        const std::size_t base = options.front();
        choice[i] = static_cast<int>(base);
        start_gain += item.gain[base];
        for (std::size_t o = 1; o < options.size(); ++o) {
            const std::size_t j = options[o];
            cover.columns.push_back({static_cast<int>(item_of_set.size()),
                                     item.cost[j] - item.cost[base],
                                     item.gain[j] - item.gain[base]});
            option_of_column.push_back(j);
        }
        if (options.size() == 1) continue;
        item_of_set.push_back(i);
        if (!problem.start.empty()) {
            start.push_back(
                start_column(item, options, problem.start[i],
                             static_cast<int>(option_of_column.size() - options.size())));
        }
    }
    cover.sets = static_cast<int>(item_of_set.size());
    cover.need = tolerant(problem.target[group]) - start_gain;
    if (cover.need <= 0) return {};

    const CoverSolution solution = solve(cover, start, seconds, gap);
    if (!solution.found) return {.found = false, .proven = false};
    for (std::size_t s = 0; s < item_of_set.size(); ++s) {
        if (solution.taken[s] < 0) continue;
        choice[item_of_set[s]] =
            static_cast<int>(option_of_column[static_cast<std::size_t>(solution.taken[s])]);
    }
    return {.found = true, .proven = solution.proven, .excess = solution.cost - solution.bound};
}

}  // namespace

std::string_view status_name(SelectionStatus status) {
    switch (status) {
        case SelectionStatus::kOptimal: return "optimal";
        case SelectionStatus::kFeasible: return "time limit";
        case SelectionStatus::kNoSolution: return "no solution";
        case SelectionStatus::kInfeasible: return "infeasible";
    }
    return "unknown";
}

SelectionStatus status_from_name(std::string_view name) {
    std::vector<std::string> known;
    for (const SelectionStatus status :
         {SelectionStatus::kOptimal, SelectionStatus::kFeasible, SelectionStatus::kNoSolution,
          SelectionStatus::kInfeasible}) {
        if (name == status_name(status)) return status;
        known.emplace_back(status_name(status));
    }
    throw Error(ErrorCode::kUsage, fmt::format("unknown status of a solver '{}'", name),
                nearest_hint(name, known));
}

Selection solve_selection(const SelectionProblem& problem, const SelectionLimits& limits) {
    if (!(limits.seconds > 0) || !(limits.gap >= 0 && limits.gap < 1)) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("selection: time limit {} s, gap {}", limits.seconds, limits.gap),
                    "the time limit is positive, the gap lies in [0, 1)");
    }
    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    Selection selection;
    selection.best_gain = checked_best_gain(problem);
    if (!reachable(problem, selection.best_gain)) {
        selection.status = SelectionStatus::kInfeasible;
        selection.seconds = elapsed();
        return selection;
    }
    std::vector<int> choice(problem.items.size(), 0);
    bool found = true, proven = true;
    double excess = 0;
    for (std::size_t g = 0; g < problem.target.size() && found; ++g) {
        const double share =
            (limits.seconds - elapsed()) / static_cast<double>(problem.target.size() - g);
        const GroupResult group = solve_group(problem, g, share, limits.gap, choice);
        found = group.found;
        proven = proven && group.proven;
        excess += group.excess;
    }
    if (found) {
        order_alike_items(problem, choice);
        selection.choice = std::move(choice);
        recompute(problem, selection);
        selection.gap = std::max(0.0, excess) / std::max(1e-12, std::abs(selection.objective));
        selection.status = proven ? SelectionStatus::kOptimal : SelectionStatus::kFeasible;
    }
    selection.seconds = elapsed();
    return selection;
}

Selection enumerate_selection(const SelectionProblem& problem) {
    Selection best;
    best.best_gain = checked_best_gain(problem);
    double choices = 1;
    for (const Item& item : problem.items) choices *= static_cast<double>(item.cost.size());
    if (choices > 4194304.0) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("selection: {:.3g} choices to enumerate", choices),
                    "at most 2^22; use solve_selection");
    }
    best.status = SelectionStatus::kInfeasible;
    Selection trial;
    trial.choice.assign(problem.items.size(), 0);
    while (true) {
        recompute(problem, trial);
        bool allowed = std::isfinite(trial.objective);
        for (std::size_t g = 0; g < problem.target.size(); ++g) {
            allowed = allowed && trial.gain[g] >= tolerant(problem.target[g]);
        }
        if (allowed && (best.choice.empty() || trial.objective < best.objective)) {
            best.choice = trial.choice;
            best.objective = trial.objective;
            best.gain = trial.gain;
            best.status = SelectionStatus::kOptimal;
        }
        // Next choice, counting like an odometer.
        std::size_t i = 0;
        for (; i < problem.items.size(); ++i) {
            if (++trial.choice[i] < static_cast<int>(problem.items[i].cost.size())) break;
            trial.choice[i] = 0;
        }
        if (i == problem.items.size()) return best;
    }
}

}  // namespace subbyte::plan
