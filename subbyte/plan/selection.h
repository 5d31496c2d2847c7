// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace subbyte::plan {

// Multiple-choice selection: one option per item, least total cost, enough total gain.
//   min  sum_i cost[i][x_i]   s.t.  sum_i gain[i][x_i] >= target   (one such line per group)
struct SelectionProblem {
    struct Item {
        std::string name;          // for messages
        std::vector<double> cost;  // per option; +Inf: never choose; NaN is refused
        std::vector<double> gain;  // per option, >= 0
        int group = 0;             // pipeline stage: index into `target`
    };
    std::vector<Item> items;
    std::vector<double> target;  // least gain per group
    // A choice to begin from, e.g. the plan in force: one option per item, -1 for an item without.
    // The search takes it up where it reaches the target (group by group), so that the answer is
    // never dearer than it. Empty: none.
    std::vector<int> start;
};

enum class SelectionStatus {
    kOptimal,     // proven, within the gap that was asked for
    kFeasible,    // best found within the time limit; `gap` says how far it may be from the optimum
    kNoSolution,  // the time limit came before any solution
    kInfeasible,  // no choice reaches the target; `best_gain` says what is possible
};

// "optimal", "time limit", "no solution", "infeasible"; status_from_name is the inverse (Error
// kUsage with the nearest).
std::string_view status_name(SelectionStatus status);
SelectionStatus status_from_name(std::string_view name);

struct Selection {
    SelectionStatus status = SelectionStatus::kNoSolution;
    std::vector<int> choice;   // exactly one option per item when optimal or feasible, else empty
    double objective = 0;      // recomputed from `choice`
    std::vector<double> gain;  // per group, recomputed from `choice`
    std::vector<double>
        best_gain;       // largest reachable gain per group (options of +Inf cost excluded)
    double gap = 0;      // (objective - bound) / max(1e-12, |objective|)
    double seconds = 0;  // wall clock
};

struct SelectionLimits {
    double seconds = 10.0;  // wall clock; a result that hits it is not reproducible
    // Relative to what the choice costs above the cheapest one without targets; 0: proven optimum.
    double gap = 0.0;
};

// Solves group by group (groups share no item, so each is a problem of its own): by dynamic
// programming over a core (cover_search.h), and with COIN-OR CBC what that leaves unproven. The
// answer does not depend on the machine unless the time limit is hit. Comparisons with the
// target tolerate 1e-9 of it, so that a target that is met exactly is not lost to rounding. Safe
// from several threads. Error kUsage for malformed problems (names the item).
// Ties: of the options of an item with equal cost the one with the most gain is taken, then the
// first. Of items that are alike (same group, costs and gains) the first ones have the options with
// more gain. Other choices of equal cost are told apart by the solver's fixed order of search: the
// same problem gives the same answer.
Selection solve_selection(const SelectionProblem& problem, const SelectionLimits& limits = {});

// Exact cross-check by enumeration over all choices (tests; at most 2^22 choices, else error
// kUsage).
Selection enumerate_selection(const SelectionProblem& problem);

}  // namespace subbyte::plan
