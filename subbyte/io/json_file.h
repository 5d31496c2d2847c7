// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "subbyte/core/file.h"

namespace subbyte::io {

// Parses one JSON value. Error kData that begins with `file` and gives line and column of the first
// mistake; values nested deeper than 500 are refused, because walking them recurses.
nlohmann::json parse_json(std::string_view text, const std::string& file);

nlohmann::json read_json(const std::filesystem::path& path);  // Error kData

// Writes the value, indented by 2, as a whole or not at all (see AtomicFile). Error kData.
WrittenFile write_json(const std::filesystem::path& path, const nlohmann::ordered_json& value);

// The text of a value on one line (indent -1) or indented. JSON has no NaN or infinity: they become
// the texts "nan", "inf" and "-inf" instead of a null that says nothing.
std::string dump_json(const nlohmann::ordered_json& value, int indent = -1);

// Reads a number that dump_json() wrote, also one of these texts. Error kData that begins with
// `where`.
double number_of(const nlohmann::json& value, const std::string& where);

}  // namespace subbyte::io
