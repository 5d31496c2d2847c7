// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "subbyte/data/corpus.h"
#include "subbyte/data/text_reader.h"

namespace subbyte::data {

// Text to be tokenised; `tokenizer` null: train one of vocab_size pieces on the training part.
struct TextCorpus {
    std::vector<TextRange> train, val;
    TokenizerPtr tokenizer;
    std::int64_t vocab_size = 0;
};

// Finds the tokens of this text in the cache or makes them. One entry is one folder, named after a
// checksum of all that its content depends on:
//
//   tokenizer.model  train.sbtk  val.sbtk  corpus.json
//
// It is built under another name and renamed when complete. After a new entry was made, those that
// were not used for the longest time are removed while all entries together exceed `limit` bytes;
// the new one always stays.
inline constexpr std::uint64_t kCacheLimit = std::uint64_t{2} << 30;
Corpus cached_corpus(const TextCorpus& text, const std::filesystem::path& cache_dir,
                     std::uint64_t limit = kCacheLimit);

}  // namespace subbyte::data
