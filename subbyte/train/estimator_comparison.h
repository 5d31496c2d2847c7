// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "subbyte/train/plan_checkpoint.h"

namespace subbyte::train {

// How well an estimate agrees with the truth over the layers, for one recipe. `rank`: Spearman;
// `ratio`: median of estimate / truth, 0 where the estimate has no unit.
struct Agreement {
    double rank = 0, ratio = 0;
};

struct EstimatorScore {
    std::string estimator, probes;
    int passes = 0;
    double seconds = 0;  // beside the iteration that is measured
    // Per recipe. Of local errors only the last is known.
    std::vector<Agreement> loss{}, weight{}, quality{};  // DL, DW, Q
};

struct EstimatorComparison {
    std::vector<std::string> recipes;
    std::vector<EstimatorScore> scores;
    // Rank agreement of the two halves of the brute force, per recipe: nothing agrees better.
    std::vector<double> loss_ceiling, weight_ceiling, quality_ceiling;
    // The truth itself: names of the candidates, and [candidate][recipe].
    std::vector<std::string> layers;
    std::vector<std::vector<plan::Divergence>> truth;
    double brute_force_seconds = 0;
    int brute_force_passes = 0;
};

// Every estimator of the loss divergence with the probes of each kind, and local errors, against
// quantising one layer at a time. Q = loss_weight * DL + weight_weight * DW. Candidates without a
// measurement or a true divergence do not count.
EstimatorComparison compare_estimators(PlannedCheckpoint& checkpoint,
                                       const std::vector<std::string>& recipes, double loss_weight,
                                       double weight_weight);

nlohmann::ordered_json to_json(const EstimatorComparison& comparison);

}  // namespace subbyte::train
