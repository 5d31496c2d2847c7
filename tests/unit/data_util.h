// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/core/log.h"
#include "tests/temp_folder.h"

namespace subbyte::data {

// With a look at what is in it.
class Folder : public TempFolder {
public:
    std::vector<std::string> names() const {  // of all files and folders, sorted
        std::vector<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator(path())) {
            names.push_back(entry.path().filename().string());
        }
        std::sort(names.begin(), names.end());
        return names;
    }
};

// Catches what the library logs while it lives.
class LogCatcher {
public:
    LogCatcher() {
        before_ = set_log_sink([this](LogLevel level, std::string_view text) {
            messages.push_back({level, std::string(text)});
        });
    }
    ~LogCatcher() { set_log_sink(before_); }
    LogCatcher(const LogCatcher&) = delete;
    LogCatcher& operator=(const LogCatcher&) = delete;

    std::vector<std::pair<LogLevel, std::string>> messages;

private:
    LogSink before_;
};

// Runs the action, which must throw an Error of this code whose message has all the parts.
inline void expect_error(ErrorCode code, const std::vector<std::string>& parts,
                         const std::function<void()>& action) {
    try {
        action();
        ADD_FAILURE() << "no error, expected one about '" << parts.at(0) << "'";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), code) << error.what();
        for (const std::string& part : parts) {
            EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
                << "'" << part << "' is not in: " << error.what();
        }
    }
}

// English-like text of paragraphs, each one line, an empty line between them; equal on every
// machine.
inline std::string sample_text(int paragraphs, std::uint32_t seed = 1) {
    static const std::vector<std::string> words{
        "the",   "of",     "her",   "a",       "to",     "and",   "was",   "she",   "in",  "Anne",
        "had",   "his",    "not",   "Captain", "be",     "it",    "that",  "him",   "for", "Elliot",
        "every", "sister", "could", "been",    "before", "house", "party", "woman", "--",  "Bath",
        "1815",  "says",   "years", "Sir",     "little", "great", "what",  "of\"",  "no",  "Lyme"};
    std::mt19937 random(seed);
    std::string text;
    for (int p = 0; p < paragraphs; ++p) {
        const auto count = 20 + random() % 60;
        for (std::uint32_t i = 0; i < count; ++i) {
            if (i > 0) text += random() % 17 == 0 ? ", " : " ";
            text += words[random() % words.size()];
        }
        text += ".\n\n";
    }
    return text;
}

}  // namespace subbyte::data
