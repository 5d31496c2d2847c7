// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/cli/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/core/log.h"

namespace subbyte::cli {
namespace {

constexpr std::string_view kHelpHint =
    "`subbyte --help` lists the verbs, `subbyte VERB --help` the rest";

std::FILE* plain_messages = stderr;

int report(ErrorCode code, std::string_view message, std::string_view hint) {
    std::fflush(stdout);
    fmt::print(stderr, "error: {}\n  hint: {}\n", message, hint);
    return static_cast<int>(code);
}

// LibTorch appends where in its sources an error was raised; that is nothing for the user.
std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

bool is_number(std::string_view cell) {
    return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell.front())) != 0 ||
                             (cell.size() > 1 && (cell.front() == '-' || cell.front() == '+')));
}

}  // namespace

void print(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
        std::fflush(stdout) != 0) {
        throw Error(ErrorCode::kData,
                    fmt::format("cannot write to standard output: {}", std::strerror(errno)),
                    "is the disk full?");
    }
}

void print_json(const nlohmann::json& json) {
    print(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

int print_error(const std::exception& error) {
    const std::string_view what = error.what();
    if (const auto* own = dynamic_cast<const Error*>(&error)) {
        return report(own->code(), what, own->hint().empty() ? kHelpHint : own->hint());
    }
    if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
        what.find("can't allocate memory") != what.npos) {
        return report(ErrorCode::kHardware, "not enough memory",
                      "use a smaller model, batch or sequence");
    }
    return report(ErrorCode::kInternal, fmt::format("internal: {}", first_line(what)),
                  "this is a fault of subbyte; please report it with the command you typed");
}

void show_messages(bool quiet, bool verbose) {
    set_log_sink([quiet, verbose](LogLevel level, std::string_view message) {
        switch (level) {
            case LogLevel::kDebug:
                if (!verbose) return;
                break;
            case LogLevel::kInfo:
                if (quiet) return;
                break;
            case LogLevel::kWarning: fmt::print(stderr, "warning: {}\n", message); return;
        }
        fmt::print(plain_messages, "{}\n", message);
        std::fflush(plain_messages);
    });
}

void show_messages_among_results() { plain_messages = stdout; }

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            // The head follows its column, which the first row below it decides.
            const auto& sample = &row == &rows.front() && rows.size() > 1 ? rows[1] : row;
            const bool right = i < sample.size() && is_number(sample[i]);
            line += right ? fmt::format("{:>{}}", row[i], widths[i])
                          : fmt::format("{:<{}}", row[i], widths[i]);
            line += "  ";
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

}  // namespace subbyte::cli
