// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "subbyte/data/token_stream.h"
#include "subbyte/data/tokenizer.h"

namespace subbyte::data {

struct CorpusOptions {
    // Text files, or token files (*.sbtk, *.bin); not both. {"novels"}: the built-in set, which
    // brings its own validation part.
    std::vector<std::string> train, val;
    // Without `val`: this share at the end of `train` is kept for validation; 0: no validation.
    double val_fraction = 0.05;
    // "sentencepiece": trained on the training part; "bytes"; or the path of a tokenizer file, see
    // load_tokenizer_file(). With token files only the last two give a tokenizer.
    std::string tokenizer = "sentencepiece";
    // Pieces of a tokenizer that is trained; vocabulary of *.bin files that come without a
    // tokenizer.
    std::int64_t vocab_size = 8192;
    std::string cache_dir = ".cache/subbyte";
    std::string novels_dir = ".cache/data/novels";  // where scripts/prepare_data.py puts the set
};

// What a run trains on and is evaluated on.
struct Corpus {
    TokenizerPtr tokenizer;  // null: token files of which only the vocabulary is known
    std::int64_t vocab_size = 0;
    TokenStream train, val;                       // val is empty when none was asked for
    std::int64_t train_bytes = 0, val_bytes = 0;  // bytes of the text behind them; 0: token files
    std::filesystem::path folder;                 // in the cache; empty: token files
    bool reused = false;                          // found in the cache
};

// Brings text into tokens. A tokenizer is trained and the text encoded once; later calls with the
// same content (size and checksum of every byte, not names or times) and the same options find the
// result in cache_dir. Every file ends with the tokenizer's end mark. A damaged cache entry is made
// again, with a warning. Errors: kData (files; nothing half-made stays), kUsage (options).
Corpus prepare_corpus(const CorpusOptions& options);

}  // namespace subbyte::data
