// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace subbyte::data {

// A regular expression over UTF-8 text with Unicode's classes (PCRE2). \s and \S are Unicode's
// White_Space, as in the engine of Hugging Face's tokenizers.
class Regex {
public:
    // Error kData that begins with `where` and shows the place in the pattern.
    Regex(const std::string& pattern, const std::string& where);

    // Where the next match lies; npos in `begin` when there is none.
    struct Match {
        std::size_t begin = std::string_view::npos, end = 0;
        explicit operator bool() const { return begin != std::string_view::npos; }
    };

    // Looks for matches in one thread; the expression must outlive it.
    class Searcher {
    public:
        explicit Searcher(const Regex& regex);
        ~Searcher();
        Searcher(Searcher&&) noexcept;

        // The first match at or after `from`. `text` must be good UTF-8, `from` a character's
        // begin. Error kData when the pattern needs more backtracking than PCRE2 allows.
        Match next(std::string_view text, std::size_t from);

    private:
        struct State;
        std::unique_ptr<State> state_;
    };

private:
    std::shared_ptr<const void> code_;
    std::string where_;
};

// Puts a backslash in front of every character that means something in a pattern.
std::string regex_escaped(std::string_view text);

}  // namespace subbyte::data
