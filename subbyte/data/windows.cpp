// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "subbyte/core/error.h"

namespace subbyte::data {

Windows::Windows(TokenStream tokens, std::int64_t seq_len, const std::string& what)
    : tokens_(std::move(tokens)), seq_len_(seq_len) {
    if (seq_len < 1) {
        throw Error(ErrorCode::kUsage, fmt::format("{}: seq_len is {}", what, seq_len),
                    "it must be at least 1");
    }
    count_ = tokens_.size() < 1 ? 0 : (tokens_.size() - 1) / seq_len;
    if (count_ < 1) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: {} tokens found, {} needed (seq_len {} and one more target)",
                                what, tokens_.size(), seq_len + 1, seq_len),
                    "give more text, or a smaller train.seq_len");
    }
}

Batch Windows::read(std::span<const std::int64_t> windows) const {
    const auto length = static_cast<std::size_t>(seq_len_);
    Batch batch{static_cast<std::int64_t>(windows.size()), seq_len_, {}, {}};
    batch.inputs.reserve(windows.size() * length);
    batch.targets.reserve(windows.size() * length);
    std::vector<std::int64_t> window(length + 1);
    for (const std::int64_t index : windows) {
        tokens_.read(index * seq_len_, window);
        batch.inputs.insert(batch.inputs.end(), window.begin(), window.end() - 1);
        batch.targets.insert(batch.targets.end(), window.begin() + 1, window.end());
    }
    return batch;
}

Batch Windows::range(std::int64_t first, std::int64_t rows) const {
    std::vector<std::int64_t> windows(
        static_cast<std::size_t>(std::clamp<std::int64_t>(count_ - first, 0, rows)));
    std::iota(windows.begin(), windows.end(), first);
    return read(windows);
}

}  // namespace subbyte::data
