// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subbyte/nn/precision.h"
#include "subbyte/optim/optimizer.h"
#include "subbyte/plan/divergence.h"
#include "subbyte/snip/gradients.h"

namespace subbyte::snip {

// Brute force: what quantising really does, with nothing estimated. The reference that every
// estimator is tested against. Every batch stands for a step of its own; changes of the loss are
// averaged with their signs (most of a single batch's change is chance), changes of weights as they
// are.
struct Oracle {
    const std::vector<LossFunction>& batches;
    nn::Precision& precision;
    const optim::Optimizer& optimizer;
    const std::vector<at::Tensor>& weights;  // of the layers in the table
    std::string high = "bf16";

    // Realised divergence of a whole plan against uniform `high` (pinned slots of candidates too):
    // DL = |L' - L| / |L|,
    // DW = mean over layers of |W'_k - W_k| / |W_k| after one optimizer step, clipping included.
    plan::Divergence of(const plan::Plan& plan) const;

    // [layer][recipe]: the layer alone in that recipe, its pinned slots in theirs. Layers that are
    // no candidates are zero. With `keep_sign` DL is negative where the loss became less.
    std::vector<std::vector<plan::Divergence>> per_layer(const std::vector<std::string>& recipes,
                                                         bool keep_sign = false) const;
};

}  // namespace subbyte::snip
