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
};

enum class SelectionStatus {
    kOptimal,     // proven, within the gap that was asked for
    kFeasible,    // best found within the time limit; `gap` says how far it may be from the optimum
    kNoSolution,  // the time limit came before any solution
    kInfeasible,  // no choice reaches the target; `best_gain` says what is possible
};

// "optimal", "time limit", "no solution", "infeasible".
std::string_view status_name(SelectionStatus status);

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
    double gap = 0.0;       // relative; 0: proven optimum
};

// Solves with COIN-OR CBC, group by group (groups share no item, so each is a problem of its own).
// The answer does not depend on the machine unless the time limit is hit. Comparisons with the
// target tolerate 1e-9 of it, so that a target that is met exactly is not lost to rounding. Safe
// from several threads. Error kUsage for malformed problems (names the item).
Selection solve_selection(const SelectionProblem& problem, const SelectionLimits& limits = {});

// Exact cross-check by enumeration over all choices (tests; at most 2^22 choices, else error
// kUsage).
Selection enumerate_selection(const SelectionProblem& problem);

}  // namespace subbyte::plan
