// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subbyte/plan/planner.h"

namespace subbyte::plan {

// What one recipe does to one layer, by the statistics.
struct RecipeSensitivity {
    std::string recipe;
    double ex = 0, ew = 0, eg = 0;  // |E| / |.| of X, W and G; 0 for a tensor of zeros
    double loss = 0, weight = 0;    // DL and DW
    double damage = 0;              // Q = loss_weight * DL + weight_weight * DW
    // Of the sums over all candidates, were they all in this recipe.
    double loss_share = 0, weight_share = 0;
    int rank = 0;  // by Q under this recipe; 1: the most sensitive
};

struct LayerSensitivity {
    std::string name, type;
    int block = -1;
    double work = 0;  // share of the candidates' FLOPs
    std::vector<RecipeSensitivity> recipes;
};

// Per candidate of the statistics, in the order of their table. Weights and estimator are those of
// the options, recipes too. Errors as estimate_divergence().
std::vector<LayerSensitivity> layer_sensitivities(const ModelStatistics& statistics,
                                                  const PlannerOptions& options);

// Recipes whose errors were measured in every candidate that data reached, sorted by name.
std::vector<std::string> measured_recipes(const ModelStatistics& statistics);

}  // namespace subbyte::plan
