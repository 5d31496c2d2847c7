// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace subbyte::data {

// Byte-pair encoding of one word (Sennrich et al. 2016): of all adjacent pairs in the list the one
// that stands first is merged, the leftmost where it occurs several times, until none is left.
// O(n log n) in the symbols of the word.
class BpeMerges {
public:
    // The pair becomes `merged`. The order of the calls is the order of the list; the last call for
    // a pair counts, as in Hugging Face's tokenizers.
    void add(std::int32_t left, std::int32_t right, std::int32_t merged);

    // Appends the ids that the symbols come to.
    void apply(const std::vector<std::int32_t>& symbols, std::vector<std::int32_t>& out) const;

private:
    struct Merge {
        std::int32_t rank, id;
    };
    const Merge* find(std::int32_t left, std::int32_t right) const;

    std::unordered_map<std::uint64_t, Merge> merges_;
    std::int32_t next_rank_ = 0;
};

}  // namespace subbyte::data
