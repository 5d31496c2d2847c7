// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subbyte/nn/precision.h"
#include "subbyte/optim/optimizer.h"
#include "subbyte/plan/divergence.h"
#include "subbyte/snip/noise_probe.h"

namespace subbyte::snip {

// Brute force: what quantising really does on this batch, with nothing estimated. The reference
// that every estimator is tested against.
struct Oracle {
    const LossFunction& loss;
    nn::Precision& precision;
    const optim::Optimizer& optimizer;
    const std::vector<at::Tensor>& weights;  // of the layers in the table
    std::string high = "bf16";

    // Realised divergence of a whole plan against uniform `high`: DL = |L' - L| / |L|,
    // DW = mean over layers of |W'_k - W_k| / |W_k| after one optimizer step, clipping included.
    plan::Divergence of(const plan::Plan& plan) const;

    // [layer][recipe]: the layer alone in that recipe. Layers that are no candidates are zero.
    std::vector<std::vector<plan::Divergence>> per_layer(
        const std::vector<std::string>& recipes) const;
};

}  // namespace subbyte::snip
