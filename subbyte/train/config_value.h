// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "subbyte/train/config_schema.h"

namespace subbyte::train {

std::string type_name(const Field& field);  // "integer", "number", "list of texts", ...
std::string limits_text(
    const Limits& limits);  // "> 0", "0 .. 0.5", "adamw | stable-spam"; "" when free

// Value as TOML text: `0.001`, `"adamw"`, `[0.9, 0.95]`. Numbers read back to the same bits.
std::string value_text(const Field& field);

std::string quote_text(std::string_view text);  // TOML basic string

// Why a value is refused, and how to write it; both empty when it is not.
struct Refusal {
    std::string what, fix;
};

// Compares a value with the limits of its key: "must be > 0, found -1e-3". `written` is how the
// value stands in the file.
Refusal check_limits(const Field& field, const Limits& limits, const std::string& written);

}  // namespace subbyte::train
