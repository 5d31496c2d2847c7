// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subbyte/nn/precision.h"
#include "subbyte/plan/statistics.h"
#include "subbyte/snip/gradients.h"

namespace subbyte::snip {

// Measures output errors (LayerStatistics::Errors::output) against the gradient of `loss`, the mean
// loss of a fixed batch whose labels are drawn from the model itself: then the sums over tokens are
// the Fisher matrix, and not that of one set of labels. Replaces what the statistics hold of them;
// they count as measured on the tokens of the step. One forward and backward pass under `plan`
// that touches neither gradients nor the optimizer; the plan in force is put back.
void measure_sampled_outputs(const LossFunction& loss, nn::Precision& precision,
                             const optim::Optimizer& optimizer,
                             const std::vector<std::string>& recipes, const plan::Plan& plan,
                             plan::ModelStatistics& statistics);

}  // namespace subbyte::snip
