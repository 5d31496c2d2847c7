// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "subbyte/train/config_reader.h"

namespace subbyte::train {

// Every key with its value as a TOML file; parse_config(to_toml(c)) gives c.
std::string to_toml(const Config& config);

// The same with the origin of each value as a comment.
std::string to_toml(const LoadedConfig& loaded);

// {"optim.lr": {"value": 0.001, "origin": "run.toml:3"}, ...}; rules as a list under
// "precision.rule".
nlohmann::json to_json(const LoadedConfig& loaded);

// Every key with type, default, limits and meaning: as an aligned table, and as JSON.
std::string schema_text();
nlohmann::json schema_json();

}  // namespace subbyte::train
