// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "subbyte/train/listener.h"

namespace subbyte::train {

// The records of log.jsonl. Numbers are exact (they read back with the same bits); a number that is
// not finite, or not known, is written as null.
nlohmann::ordered_json record_of(const RunStart& start);
nlohmann::ordered_json record_of(const StepRecord& record);
nlohmann::ordered_json record_of(const EvalRecord& record);
nlohmann::ordered_json record_of(const SnipEvent& event);
nlohmann::ordered_json record_of(const ControlEvent& event);
nlohmann::ordered_json record_of(const RunEnd& end);

// Shapes and names of the layers, as saved in summary.json; layers_from_json is the inverse (Error
// kData).
nlohmann::ordered_json layers_json(const plan::LayerTable& table);
plan::LayerTable layers_from_json(const nlohmann::json& json);

}  // namespace subbyte::train
