// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "subbyte/data/file.h"

namespace subbyte::data {

// One file of token ids. It stays open and is read where it lies, so that neither memory nor the
// start of a run grow with it. Kinds:
//   .sbtk   our own: see ShardHeader
//   .bin    ids alone, 16 or 32 bit (nanoGPT), or behind a header of 256 32-bit words (llm.c:
//           20240520 for 16 bit, 20240801 for 32 bit, then version and number of ids)
class TokenShard {
public:
    struct Options {
        std::int64_t vocab_size = 0;  // of .bin files; must agree with that of a .sbtk unless 0
        int id_bytes = 0;             // of .bin files without header: 2, 4; 0: 2 up to 65536 ids
    };

    // Checks everything before use: sizes against the file, checksums, every id against the
    // vocabulary. Error kData with path, position and both numbers.
    TokenShard(const std::filesystem::path& path, const Options& options);

    const std::filesystem::path& path() const { return file_.path(); }
    std::int64_t size() const { return size_; }  // ids
    std::int64_t vocab_size() const { return vocab_size_; }
    // Fingerprint of the tokenizer that made it; 0: unknown.
    std::uint64_t tokenizer() const { return tokenizer_; }
    std::uint64_t checksum() const { return checksum_; }  // XXH64 of the ids as they are stored

    // Copies ids [begin, begin + to.size()), which must exist; any thread.
    void read(std::int64_t begin, std::span<std::int64_t> to) const;

private:
    std::uint64_t read_own_header();  // the checksum the ids must have
    void read_llmc_header();
    void check_ids();

    InputFile file_;
    std::int64_t offset_ = 0, size_ = 0, vocab_size_ = 0;  // offset_: bytes before the first id
    int id_bytes_ = 0;
    std::uint64_t tokenizer_ = 0, checksum_ = 0;
};

using TokenShardPtr = std::shared_ptr<const TokenShard>;

// The first 64 bytes of a .sbtk file, little-endian.
struct ShardHeader {
    char magic[4] = {'S', 'B', 'T', 'K'};
    std::uint32_t version = 1;
    std::uint32_t id_bytes = 0;  // 2 or 4
    std::uint32_t reserved = 0;  // 0
    std::uint64_t count = 0;     // ids; the file ends after them
    std::uint64_t vocab_size = 0;
    std::uint64_t tokenizer = 0;         // fingerprint of the tokenizer; 0: unknown
    std::uint64_t payload_checksum = 0;  // XXH64 of the ids
    std::uint64_t header_checksum = 0;   // XXH64 of the 48 bytes before it
    std::uint64_t padding = 0;           // 0
};
static_assert(sizeof(ShardHeader) == 64);

// Ids of one or several shards as one sequence, or a part of it. A value: copies share the files.
class TokenStream {
public:
    TokenStream() = default;
    // All must have the same vocabulary: Error kData.
    explicit TokenStream(std::vector<TokenShardPtr> shards);

    std::int64_t size() const { return end_ - begin_; }
    std::int64_t vocab_size() const { return shards_.empty() ? 0 : shards_[0]->vocab_size(); }
    // Fingerprint of the tokenizer that made all of them; 0: unknown.
    std::uint64_t tokenizer() const { return shards_.empty() ? 0 : shards_[0]->tokenizer(); }
    std::uint64_t checksum() const;  // of content and place: differs for different ids
    TokenStream slice(std::int64_t begin, std::int64_t end) const;  // of this stream's ids
    void read(std::int64_t begin, std::span<std::int64_t> to) const;

private:
    std::vector<TokenShardPtr> shards_;
    std::int64_t begin_ = 0, end_ = 0;  // in the sequence of all shards
};

}  // namespace subbyte::data
