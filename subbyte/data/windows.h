// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "subbyte/data/token_stream.h"

namespace subbyte::data {

// Training examples, row-major [rows, seq_len]: targets[r][t] is the token after inputs[r][t].
struct Batch {
    std::int64_t rows = 0, seq_len = 0;
    std::vector<std::int64_t> inputs, targets;
};

// A token sequence seen as windows of seq_len inputs, each needing one more token as its last
// target: N tokens give (N - 1) / seq_len windows, window i starts at token i * seq_len, what is
// left over at the end is not used.
class Windows {
public:
    // `what` ("training data") stands in messages. Errors: kData, with the number of tokens found
    // and the number needed, when there is not one window; kUsage when seq_len < 1.
    Windows(TokenStream tokens, std::int64_t seq_len, const std::string& what);

    std::int64_t count() const { return count_; }
    std::int64_t seq_len() const { return seq_len_; }
    const TokenStream& tokens() const { return tokens_; }

    Batch read(std::span<const std::int64_t> windows) const;  // any order; each in [0, count)
    // Windows [first, first + rows), cut at count(): what an evaluation goes through, in order.
    Batch range(std::int64_t first, std::int64_t rows) const;

private:
    TokenStream tokens_;
    std::int64_t seq_len_, count_ = 0;
};

}  // namespace subbyte::data
