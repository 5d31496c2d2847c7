// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "subbyte/plan/cbc_solver.h"

namespace subbyte::plan {

struct CoverSums {
    double cost = 0, gain = 0;
};
CoverSums cover_sums(const CoverProblem& problem, const std::vector<int>& taken);

// A solution to begin the search from: steps along the convex hull of every set by their cost per
// gain until the need is covered, then single exchanges as long as one makes it cheaper. Close to
// the optimum when there are many sets (CBC proves the rest in a fraction of the time). Per set the
// column taken, -1 for none; empty when no choice covers the need. Ties go to the earlier set and
// column.
std::vector<int> greedy_cover(const CoverProblem& problem);

}  // namespace subbyte::plan
