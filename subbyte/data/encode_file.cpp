// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/encode_file.h"

#include <algorithm>
#include <string>
#include <vector>

#include "subbyte/core/parallel.h"

namespace subbyte::data {
namespace {

constexpr std::size_t kEncodedAtOnce = 64 << 10;  // bytes of text per call of the tokenizer

// Encodes a block of text in parts that end at line ends; they are independent of each other, so
// the ids do not depend on the number of threads or parts. `first`: the block begins the file.
std::vector<std::int32_t> encode_block(const Tokenizer& tokenizer, std::string_view block,
                                       bool first) {
    std::vector<std::string_view> parts;
    while (!block.empty()) {
        const std::size_t line = block.find('\n', std::min(kEncodedAtOnce, block.size()));
        parts.push_back(block.substr(0, line == block.npos ? line : line + 1));
        block.remove_prefix(parts.back().size());
    }
    std::vector<std::vector<std::int32_t>> ids(parts.size());
    parallel_for(static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t i, std::int64_t end) {
        for (; i < end; ++i) {
            const auto at = static_cast<std::size_t>(i);
            ids[at] =
                first && i == 0 ? tokenizer.encode(parts[at]) : tokenizer.encode_rest(parts[at]);
        }
    });
    std::vector<std::int32_t> all;
    for (const auto& part : ids) all.insert(all.end(), part.begin(), part.end());
    return all;
}

}  // namespace

void encode_file(const TextRange& text, const Tokenizer& tokenizer,
                 const std::function<void(std::span<const std::int32_t>)>& sink) {
    TextReader reader(text);
    std::string block;
    for (bool first = true; reader.next(block); first = false) {
        sink(encode_block(tokenizer, block, first));
    }
    if (const std::int32_t end = tokenizer.eos_id(); end >= 0) sink({&end, 1});
}

}  // namespace subbyte::data
