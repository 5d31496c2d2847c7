// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subbyte/plan/statistics.h"

namespace subbyte::plan {

enum class LossEstimator {
    kNormOnly,    // sqrt(|dX|^2 |E_X|^2 / (T K) + |dW|^2 |E_W|^2 / (N K))
    kFirstOrder,  // |<dX, E_X> + <dW, E_W>|, measured on the tensors
};

// Damage that one recipe does in one layer, both parts normalised.
struct Divergence {
    double loss = 0;    // DL = predicted |L' - L| / |L|
    double weight = 0;  // DW = mean over layers of |W'_k - W_k| / |W_k| after one optimizer step
};

// divergences[layer][recipe], recipes in the order given. Reconstruction of SNIP's two measures
// (forward loss divergence; backward weight divergence through the optimizer's own state) from norms:
//   direct    |a|^2 = (|E_G|^2 |X|^2 + |G|^2 |E_X|^2) / T                      error of dW_l itself
//   backward  |b|^2 = (|E_G|^2 |W|^2 + |G|^2 |E_W|^2) / N, carried by backward[l][k] to earlier layers
//   forward   |E_Y|^2 = (|E_X|^2 |W|^2 + |X|^2 |E_W|^2) / K, carried by forward[l][k] to all layers
//   |W'_k - W_k| ~ |J_k| |dg_k| / sqrt(numel_k)
// A layer whose statistics are zero costs 0. Error kDiverged names the layer with a non-finite number.
std::vector<std::vector<Divergence>> estimate_divergence(const ModelStatistics& statistics,
                                                         const std::vector<std::string>& recipes,
                                                         LossEstimator estimator);

}  // namespace subbyte::plan
