// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "subbyte/plan/selection.h"

namespace subbyte::plan {

// The change of the loss when one item takes an option and all others stay as at the start, and the
// deviation of that estimate.
struct Hint {
    double change = 0, deviation = 0;
};

struct RefineOptions {
    int evaluations = 0;                     // of the true loss, at most; the start counts
    int moves = 16;                          // items that the first proposal may change; adapts
    std::uint64_t seed = 0;                  // address of the noise of proposals
    std::vector<std::vector<Hint>> hints{};  // [item][option], in units of the loss; empty: none
    // [item][option]: the part of the cost that is for what the loss does not see; empty: nothing.
    std::vector<std::vector<double>> unseen{};
};

// One option per item -> the loss to make small.
using ChoiceLoss = std::function<double(const std::vector<int>& choice)>;

struct Refinement {
    std::vector<int> choice;
    double start_loss = 0, loss = 0;      // of the start and of `choice`
    double start_unseen = 0, unseen = 0;  // sums of the unseen costs, in units of the loss
    int evaluations = 0, accepted = 0;
};

// Betters a choice by the true loss. The costs of the problem say how much each option is expected
// to do, up to a common factor that is found first: from the loss of the start and that of the
// cheapest options. Hints, where there are any, correct that. Then, again and again: effects are
// drawn from what is believed of them (by address, so the same call gives the same choice), the
// problem is solved for those, changing few items of the best choice so far, and the loss of the
// solution corrects the belief (linear_belief.h). It is kept when its loss is lower. More items may
// change after a success, fewer after a failure. The result reaches the targets and is never worse
// than `start`, which must reach them too. Ends early when nothing new is proposed.
// Unseen costs stay as they are expected, times the factor that was found: what is made small is
// the loss plus their sum, and neither that nor the loss alone is worse than at the start. Items
// with no other cost follow from the rest, under the same targets; their changes are not counted.
// Errors: kUsage for a start, hints or unseen costs that do not fit and for costs that are not
// finite; those of `loss` and solve_selection().
Refinement refine_selection(const SelectionProblem& problem, const std::vector<int>& start,
                            const ChoiceLoss& loss, const RefineOptions& options);

}  // namespace subbyte::plan
