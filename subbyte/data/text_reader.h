// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "subbyte/core/file.h"

namespace subbyte::data {

// Bytes [begin, end) of a text file, as they are on the disk; `end` may lie beyond its end.
struct TextRange {
    std::filesystem::path path;
    std::int64_t begin = 0;
    std::int64_t end = std::numeric_limits<std::int64_t>::max();
};

// Reads UTF-8 text in blocks of about a megabyte, so that the size of a file does not matter. A
// byte order mark is dropped and CRLF becomes LF. Errors (kData, with path and byte offset):
// missing, a folder, empty, UTF-16, compressed, binary (NUL bytes), not UTF-8.
class TextReader {
public:
    explicit TextReader(const TextRange& range);

    // The next block, which ends after a line end wherever one is near, else before a blank, else
    // between two characters. False at the end of the text.
    bool next(std::string& block);

private:
    void check_head();
    void check(std::string_view text) const;

    InputFile file_;
    std::int64_t read_ = 0, end_ = 0;  // position of the next byte from the file; end of the range
    std::int64_t offset_ = 0;          // position of the first byte of rest_
    std::string rest_;                 // read, not yet handed out
};

// Cuts the last `fraction` of all bytes off, at the next line end: {front, tail}. The files keep
// their order; one of them may be in both parts.
std::pair<std::vector<TextRange>, std::vector<TextRange>> split_tail(
    const std::vector<std::filesystem::path>& files, double fraction);

}  // namespace subbyte::data
