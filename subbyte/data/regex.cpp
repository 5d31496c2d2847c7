// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "subbyte/core/error.h"

namespace subbyte::data {
namespace {

const pcre2_code* code_of(const std::shared_ptr<const void>& code) {
    return static_cast<const pcre2_code*>(code.get());
}

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string message_of(int code) {
    PCRE2_UCHAR text[160] = {};
    pcre2_get_error_message(code, text, sizeof text);
    return reinterpret_cast<const char*>(text);
}

// PCRE2's \s holds U+180E as well, which left White_Space with Unicode 6.3.
std::string with_unicode_space(const std::string& pattern) {
    std::string result;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] != '\\' || i + 1 == pattern.size()) {
            result += pattern[i];
            continue;
        }
        const char escaped = pattern[++i];
        if (escaped == 's') {
            result += "\\p{White_Space}";
        } else if (escaped == 'S') {
            result += "\\P{White_Space}";
        } else {
            result += '\\';
            result += escaped;
        }
    }
    return result;
}

}  // namespace

Regex::Regex(const std::string& pattern, const std::string& where) : where_(where) {
    const std::string text = with_unicode_space(pattern);
    int error = 0;
    std::size_t at = 0;
    pcre2_code* code =
        pcre2_compile(units(text), text.size(), PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
    if (code == nullptr) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: regular expression '{}': {} at character {} of '{}'", where,
                                pattern, message_of(error), at, text),
                    "correct the expression");
    }
    code_ = std::shared_ptr<const void>(
        code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it the same matches, slower
}

struct Regex::Searcher::State {
    std::shared_ptr<const void> code;
    std::string where;
    pcre2_match_data* data;
};

Regex::Searcher::Searcher(const Regex& regex)
    : state_(std::make_unique<State>(
          State{regex.code_, regex.where_,
                pcre2_match_data_create_from_pattern(code_of(regex.code_), nullptr)})) {}

Regex::Searcher::~Searcher() {
    if (state_) pcre2_match_data_free(state_->data);
}

Regex::Searcher::Searcher(Searcher&&) noexcept = default;

Regex::Match Regex::Searcher::next(std::string_view text, std::size_t from) {
    const int found = pcre2_match(code_of(state_->code), units(text), text.size(), from,
                                  PCRE2_NO_UTF_CHECK, state_->data, nullptr);
    if (found == PCRE2_ERROR_NOMATCH) return {};
    if (found < 0) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: byte {} of a text of {}: {}", state_->where, from, text.size(),
                                message_of(found)),
                    "break long runs of the same kind of characters in the text");
    }
    const std::size_t* range = pcre2_get_ovector_pointer(state_->data);
    return {range[0], range[1]};
}

std::string regex_escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (std::string_view("\\^$.[]|()?*+{}-#&~/ \t\n").find(c) != std::string_view::npos) {
            result += '\\';
        }
        result += c;
    }
    return result;
}

}  // namespace subbyte::data
