// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "subbyte/core/file.h"
#include "subbyte/data/token_stream.h"

namespace subbyte::data {

// One file of token ids. It stays open and is read where it lies, so that neither memory nor the
// start of a run grow with it. Kinds:
//   .sbtk   our own: see ShardHeader
//   .bin    ids alone, 16 or 32 bit (nanoGPT), or behind a header of 256 32-bit words (llm.c:
//           20240520 for 16 bit, 20240801 for 32 bit, then version and number of ids)
class TokenShard : public TokenSource {
public:
    struct Options {
        std::int64_t vocab_size = 0;  // of .bin files; must agree with that of a .sbtk unless 0
        int id_bytes = 0;             // of .bin files without header: 2, 4; 0: 2 up to 65536 ids
    };

    // Checks everything before use: sizes against the file, checksums, every id against the
    // vocabulary. Error kData with path, position and both numbers.
    TokenShard(const std::filesystem::path& path, const Options& options);

    std::string name() const override { return file_.path().string(); }
    std::int64_t size() const override { return size_; }
    std::int64_t vocab_size() const override { return vocab_size_; }
    std::uint64_t tokenizer() const override { return tokenizer_; }
    std::uint64_t checksum() const override { return checksum_; }  // XXH64 of the ids as stored
    void read(std::int64_t begin, std::span<std::int64_t> to) const override;

private:
    std::uint64_t read_own_header();  // the checksum the ids must have
    void read_llmc_header();
    void check_ids();

    InputFile file_;
    std::int64_t offset_ = 0, size_ = 0, vocab_size_ = 0;  // offset_: bytes before the first id
    int id_bytes_ = 0;
    std::uint64_t tokenizer_ = 0, checksum_ = 0;
};

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

}  // namespace subbyte::data
