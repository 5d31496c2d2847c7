// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace subbyte::plan {

// Rank correlation of two lists of equal length, -1 .. 1; equal values share their mean rank. 0
// when either list has no two different values.
double spearman(const std::vector<double>& a, const std::vector<double>& b);

// Median of estimate / real over the places where both are positive; 0 when there is none.
double median_ratio(const std::vector<double>& estimate, const std::vector<double>& real);

}  // namespace subbyte::plan
