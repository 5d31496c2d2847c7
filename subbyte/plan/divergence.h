// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

#include "subbyte/plan/estimator.h"
#include "subbyte/plan/plan.h"

namespace subbyte::plan {

// Damage that one recipe does in one layer, both parts normalised.
struct Divergence {
    double loss = 0;    // DL = predicted |L' - L| / |L|
    double weight = 0;  // DW = mean over layers of |W'_k - W_k| / |W_k| after one optimizer step
};

// divergences[layer][recipe], recipes in the order given. Reconstruction of SNIP's two measures
// (arXiv 2602.01410: forward loss divergence; backward weight divergence through the optimizer's
// own state) from norms, errors taken as independent and of zero mean:
//   direct    |a|^2   = (|E_G|^2 |X|^2 + |G|^2 |E_X|^2) / T   of dW_l itself
//   backward  |b|^2   = (|E_G|^2 |W|^2 + |G|^2 |E_W|^2) / N   of dX_l
//   forward   |E_Y|^2 = (|E_X|^2 |W|^2 + |X|^2 |E_W|^2) / K   of Y_l
//   |dg_k|^2 = [k = l] |a|^2 + [k < l] (backward[l][k] |b|)^2 + (forward[l][k] |E_Y|)^2
//   |W'_k - W_k| ~ |J_k| |dg_k| / sqrt(numel_k)
// Each of the three lines has the errors of the operands of its own GEMM (wgrad, dgrad, fprop).
// The baseline is BF16: recipes that quantise nothing below it (bf16, fp32) cost 0. A layer whose
// statistics are zero (frozen, or not reached in the measured step) costs 0, and gains that were
// not measured (empty) count as 0. Layers that are no candidates cost 0 too; they still count as
// layers that an error reaches. Pinned slots keep their recipes: their squared errors are the same
// constant under every recipe of the layer. Errors: kUsage for an unknown recipe and for one that
// was not measured (names layer and recipe); kDiverged names the layer with a non-finite number.
std::vector<std::vector<Divergence>> estimate_divergence(const ModelStatistics& statistics,
                                                         const std::vector<std::string>& recipes,
                                                         LossEstimator estimator);

// The same split over the GEMMs: [layer][recipe][slot]. fprop is all of DL and the forward path,
// dgrad the backward path, wgrad the direct error, each as if the other two were absent. The parts
// d of a recipe add up to the layer's D: DL exactly; of DW the squares do at every layer k that the
// error reaches, so for their mean over k
//   sqrt(sum_slot d^2) <= D <= sum_slot d
// with equality on the left when only one layer is reached. Slots of different recipes combine in
// the same way. Errors as above.
std::vector<std::vector<std::array<Divergence, 3>>> estimate_slot_divergence(
    const ModelStatistics& statistics, const std::vector<std::string>& recipes,
    LossEstimator estimator);

// The same of one layer whose slots (fprop, dgrad, wgrad) have these recipes. The statistics have
// passed check_statistics(). Errors as above.
Divergence layer_divergence(const ModelStatistics& statistics, std::size_t layer,
                            const std::array<std::string, 3>& recipes, LossEstimator estimator);

// The damage of a whole plan, every slot in its recipe: shifts of the loss add up, and squares of
// spreads; at every layer that is reached, squared errors of gradients add up. Less than the sum of
// the layers' divergences. Errors as above.
Divergence estimate_plan_divergence(const ModelStatistics& statistics, const Plan& plan,
                                    LossEstimator estimator);

// Share of DW that an error of norm 1 in the gradient of layer k makes: |J_k| / (sqrt(numel_k)
// |W_k| M) for M layers. A weight of zeros has no relative change; it is left out, like a layer
// that has no statistics.
double update_change(const ModelStatistics& statistics, std::size_t k);

// Error norms of a layer under a recipe: all 0 for a recipe that quantises nothing below BF16.
// Error kUsage when they were not measured, kDiverged when one is not finite.
LayerStatistics::Errors quantisation_errors(const LayerStatistics& layer,
                                            const std::string& layer_name,
                                            const std::string& recipe);

// Nothing was measured in this layer: it is frozen or no data reached it.
bool is_unmeasured(const LayerStatistics& layer);

}  // namespace subbyte::plan
