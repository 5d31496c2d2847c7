// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "subbyte/core/file.h"
#include "subbyte/data/token_shard.h"

namespace subbyte::data {

// Writes a .sbtk token shard (see TokenShard) piece by piece. The file appears with finish(); an
// error (kData: disk full, no permission) or a missing finish() leaves nothing behind.
class ShardWriter {
public:
    // Ids take 16 bits where vocab_size allows. `tokenizer`: its fingerprint, 0 when unknown.
    ShardWriter(const std::filesystem::path& path, std::int64_t vocab_size,
                std::uint64_t tokenizer);

    void append(std::span<const std::int32_t> ids);  // Error kData for an id outside the vocabulary
    void finish();

    std::int64_t size() const { return static_cast<std::int64_t>(header_.count); }

private:
    AtomicFile file_;
    ShardHeader header_;
    Checksum checksum_;
};

}  // namespace subbyte::data
