// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "subbyte/plan/explain.h"
#include "subbyte/plan/sensitivity.h"

namespace subbyte::train {

// Saved statistics, or the last record of a run's stats.jsonl. Error kData.
plan::ModelStatistics read_statistics(const std::filesystem::path& file);

// Layer types of a plan: how many layers have which recipes ("fp4", or "fp4/fp8/bf16").
nlohmann::ordered_json plan_types(const plan::Plan& plan);

// Both keep to the units or layers whose name (or one of whose coupled names) the glob matches;
// "types" sums over all. "" matches everything. Error kUsage when nothing matches.
nlohmann::ordered_json to_json(const plan::Explanation& explanation, const std::string& glob);
nlohmann::ordered_json to_json(const std::vector<plan::LayerSensitivity>& layers,
                               const std::string& glob);

// The name of a unit against a glob of layers: coupled units match by any of their parts.
bool unit_matches(const std::string& glob, const std::string& unit);

}  // namespace subbyte::train
