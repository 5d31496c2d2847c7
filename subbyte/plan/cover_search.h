// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "subbyte/plan/cbc_solver.h"

namespace subbyte::plan {

// The same problem as solve_cover(), by dynamic programming over a core (after Pisinger's method
// for the multiple-choice knapsack problem, EJOR 83, 1995): the linear relaxation gives a price per
// gain, a bound, and a choice for every set; then one set after another, the ones where another
// column costs least beyond that price first, is allowed to change. Partial choices that are
// dominated, or whose bound is not below the best known solution, are dropped; the search ends when
// none is left, usually after a small part of the sets. In exact arithmetic of its own (sums of
// doubles, no tolerances of a linear solver), and reproducible. `start`: a choice to begin from,
// per set the index of its column or -1; empty, or not covering the need: none. What it returns is
// never dearer. Ends unproven, with an honest bound, at the time limit or when more partial choices
// are alive than memory should hold. Without time nothing but the start is found.
CoverSolution search_cover(const CoverProblem& problem, const std::vector<int>& start,
                           double seconds, double gap);

}  // namespace subbyte::plan
