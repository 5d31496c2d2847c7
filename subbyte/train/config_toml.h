// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only header that pulls in toml++: for config_toml.cpp and config_reader.cpp.
//
// Its assertions are off in every build: on some malformed inputs ("[" as the last character) they
// fire in front of code that reports the mistake properly.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <string>
#include <string_view>
#include <vector>

#include "subbyte/train/config_mistakes.h"
#include "subbyte/train/config_value.h"

namespace subbyte::train {

// A parsed TOML text with enough of the text kept to quote it.
class TomlText {
public:
    // Parses `text`; syntax errors become mistakes. After one, its line is skipped and parsing goes
    // on, so that the rest of the file is checked as well.
    TomlText(std::string_view text, std::string name, std::vector<Mistake>& mistakes);

    const toml::table& table() const { return table_; }
    // False when a line had to be skipped whose content is unknown (repeated keys do not count).
    bool complete() const { return complete_; }

    Origin origin(const toml::source_position& position) const;
    // The value as it stands in the file, for values on one line; else a word for its type.
    std::string written(const toml::node& node) const;

private:
    std::string name_;
    std::vector<std::string> lines_;
    toml::table table_;
    bool complete_ = true;
};

// Stores a TOML value in a field, or says why its type does not fit.
Refusal store(const toml::node& node, const std::string& written, const Field& field);

// "integer", "text", "list", "section", ...
std::string_view toml_type_name(const toml::node& node);

}  // namespace subbyte::train
