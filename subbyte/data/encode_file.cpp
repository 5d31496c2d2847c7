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

// Encodes parts of a text, which are independent of each other, so that the ids do not depend on
// the number of threads. `first`: the first part begins the file.
std::vector<std::int32_t> encode_parts(const Tokenizer& tokenizer,
                                       const std::vector<std::string_view>& parts, bool first) {
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
    std::string block, pending;  // pending: read, but not to be cut off yet
    std::size_t searched = 0;    // bytes of pending in which there is no place for a cut
    bool first = true;
    for (bool more = true; more;) {
        more = reader.next(block);
        if (more) pending += block;
        const std::string_view whole = pending;
        std::vector<std::string_view> parts;
        std::size_t begin = 0;
        while (begin < whole.size()) {
            const std::size_t at = std::max(begin + kEncodedAtOnce, searched);
            std::size_t end = tokenizer.cut(whole, std::min(at, whole.size()));
            if (end == whole.npos && more) break;
            end = std::min(end, whole.size());
            parts.push_back(whole.substr(begin, end - begin));
            begin = end;
        }
        if (!parts.empty()) {
            sink(encode_parts(tokenizer, parts, first));
            first = false;
        }
        pending.erase(0, begin);
        searched = pending.empty() ? 0 : pending.size() - 1;
    }
    if (const std::int32_t end = tokenizer.eos_id(); end >= 0) sink({&end, 1});
}

}  // namespace subbyte::data
