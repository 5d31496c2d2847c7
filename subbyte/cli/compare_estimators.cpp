// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte plan MODEL_DIR --data TEXT --compare-estimators
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "subbyte/cli/output.h"
#include "subbyte/cli/plan.h"
#include "subbyte/core/error.h"
#include "subbyte/train/estimator_comparison.h"

namespace subbyte::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string rank_text(const std::vector<train::Agreement>& agreements, std::size_t recipe) {
    return agreements.empty() ? "-" : fmt::format("{:.2f}", agreements[recipe].rank);
}

std::string ratio_text(const std::vector<train::Agreement>& agreements, std::size_t recipe) {
    if (agreements.empty() || agreements[recipe].ratio == 0) return "-";
    return fmt::format("{:.2f}", agreements[recipe].ratio);
}

std::string scores_text(const train::EstimatorComparison& comparison, std::size_t recipe) {
    Rows rows{{"estimator", "probes", "passes", "seconds", "Q rank", "Q ratio", "DL rank",
               "DL ratio", "DW rank", "DW ratio"}};
    for (const train::EstimatorScore& score : comparison.scores) {
        rows.push_back({score.estimator, score.probes, fmt::to_string(score.passes),
                        fmt::format("{:.2f}", score.seconds)});
        for (const auto* part : {&score.quality, &score.loss, &score.weight}) {
            rows.back().push_back(rank_text(*part, recipe));
            rows.back().push_back(ratio_text(*part, recipe));
        }
    }
    if (!comparison.quality_ceiling.empty()) {
        rows.push_back({"half the brute force", "-", fmt::to_string(comparison.brute_force_passes),
                        fmt::format("{:.2f}", comparison.brute_force_seconds),
                        fmt::format("{:.2f}", comparison.quality_ceiling[recipe]), "-",
                        fmt::format("{:.2f}", comparison.loss_ceiling[recipe]), "-",
                        fmt::format("{:.2f}", comparison.weight_ceiling[recipe]), "-"});
    }
    return table_text(rows);
}

}  // namespace

void compare_estimators(const PlanArguments& a) {
    if (a.data.empty()) {
        throw Error(ErrorCode::kUsage, "--compare-estimators measures, and there is no --data",
                    "name a text to measure on: --data FILE");
    }
    for (const std::string& recipe : a.options) plan::find_recipe(recipe);
    train::CheckpointOptions options = a.checkpoint;
    options.recipes = a.options;
    options.sampled_labels = a.labels == "sampled";
    train::PlannedCheckpoint checkpoint(a.what, a.data, options);
    const train::EstimatorComparison comparison =
        train::compare_estimators(checkpoint, a.options, a.loss_weight, a.weight_weight);
    if (a.json) return print_json(train::to_json(comparison));
    for (std::size_t r = 0; r < a.options.size(); ++r) {
        print(fmt::format("{}{} in one layer alone, estimated against brute force (rank: Spearman "
                          "over layers; ratio: median of estimate / truth)\n",
                          r == 0 ? "" : "\n", a.options[r]) +
              scores_text(comparison, r));
    }
    for (const std::string& note : checkpoint.notes()) print("note: " + note + "\n");
}

}  // namespace subbyte::cli
