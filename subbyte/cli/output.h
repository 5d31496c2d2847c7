// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace subbyte::cli {

// The only places that write to the terminal. Results go to standard output; errors and messages of
// the library to standard error.
void print(std::string_view text);            // Error kData when it cannot be written (a full disk)
void print_json(const nlohmann::json& json);  // indented, with a newline

// "error: what" and "  hint: what to try" on standard error; returns the exit code.
int print_error(const std::exception& error);

// Messages of the library from now on: "warning: ..." and plain lines, on standard error. `quiet`
// drops the plain ones, `verbose` adds debug messages.
void show_messages(bool quiet, bool verbose);

// Plain lines go to standard output from now on: for a verb whose result is such lines. Standard
// error then holds warnings and the error, if there is one.
void show_messages_among_results();

// Columns of equal width, separated by two spaces; the first row is the head. Cells that look like
// numbers are aligned to the right.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace subbyte::cli
