// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace subbyte::plan {

// A 0-1 covering knapsack with choice sets:
//   min  sum_j cost_j x_j    s.t.  sum_j gain_j x_j >= need,   at most one x_j per set,   x_j in
//   {0, 1}
// All costs, all gains and `need` are positive and finite.
struct CoverProblem {
    struct Column {
        int set;
        double cost, gain;
    };
    std::vector<Column> columns;
    int sets = 0;
    double need = 0;
};

struct CoverSolution {
    bool found = false;      // `taken` holds a checked solution
    bool proven = false;     // the solver proved it to be optimal within the gap
    std::vector<int> taken;  // per set: index of the chosen column, -1 for none
    double cost = 0;         // recomputed from `taken`
    double bound = 0;        // no solution costs less (0 is always true)
};

// Solves with COIN-OR CBC: one thread, fixed seed, no output, wall-clock limit. Nothing the solver
// says is believed unchecked: values must be 0 or 1, `need` must be covered when the gains are
// summed again, and "optimal" counts only when the solver's objective is that of its solution. A
// solution that covers `need` only within the solver's tolerances is excluded and the search goes
// on. Calls from several threads are safe (one solve at a time).
CoverSolution solve_cover(const CoverProblem& problem, double seconds, double gap);

}  // namespace subbyte::plan
