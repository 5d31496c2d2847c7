// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "subbyte/core/error.h"
#include "subbyte/data/corpus_cache.h"
#include "subbyte/data/token_shard.h"

namespace subbyte::data {
namespace {

using Paths = std::vector<std::filesystem::path>;

bool is_token_file(const std::string& path) {
    return path.ends_with(".sbtk") || path.ends_with(".bin");
}

// The built-in set by its name, unless a file of that name lies there.
CorpusOptions with_novels(CorpusOptions options) {
    if (options.train != std::vector<std::string>{"novels"} ||
        std::filesystem::is_regular_file("novels")) {
        return options;
    }
    const std::filesystem::path folder = options.novels_dir;
    for (const char* part : {"train.txt", "val.txt"}) {
        if (!std::filesystem::exists(folder / part)) {
            throw Error(
                ErrorCode::kData,
                fmt::format("the novels are not here: {} is missing",
                            std::filesystem::absolute(folder / part).string()),
                fmt::format("fetch them once, in this working directory: scripts/prepare_data.py "
                            "--out {}; or train on a text of your own: --set data.path=FILE",
                            folder.string()));
        }
    }
    options.train = {(folder / "train.txt").string()};
    if (options.val.empty()) options.val = {(folder / "val.txt").string()};
    return options;
}

void check(const CorpusOptions& options) {
    if (options.train.empty()) {
        throw Error(ErrorCode::kUsage, "data.path names no file", "give a text file");
    }
    if (!(options.val_fraction >= 0 && options.val_fraction < 1)) {
        throw Error(ErrorCode::kUsage, fmt::format("data.val_fraction is {}", options.val_fraction),
                    "it must lie in [0, 1)");
    }
}

// The tokenizer that needs no training; null: one is to be trained.
TokenizerPtr ready_tokenizer(const std::string& name) {
    if (name == "sentencepiece") return nullptr;
    return name == "bytes" ? make_byte_tokenizer() : load_tokenizer_file(name);
}

[[noreturn]] void nothing_to_validate(const CorpusOptions& options, std::int64_t found,
                                      const char* unit) {
    throw Error(ErrorCode::kData,
                fmt::format("{}: {} {} cannot be split into training data and a share of {} for "
                            "validation",
                            fmt::join(options.train, ", "), found, unit, options.val_fraction),
                "name a validation file (data.val_path), or set data.val_fraction to 0");
}

TokenStream open_shards(const std::vector<std::string>& paths, std::int64_t vocab_size) {
    std::vector<TokenSourcePtr> shards;
    for (const std::string& path : paths) {
        const bool own = path.ends_with(".sbtk");
        shards.push_back(std::make_shared<TokenShard>(
            path, TokenShard::Options{.vocab_size = own ? 0 : vocab_size}));
    }
    return TokenStream(std::move(shards));
}

Corpus open_token_files(const CorpusOptions& options) {
    Corpus corpus;
    corpus.tokenizer = ready_tokenizer(options.tokenizer);
    const std::int64_t vocab_size =
        corpus.tokenizer ? corpus.tokenizer->vocab_size() : options.vocab_size;
    corpus.train = open_shards(options.train, vocab_size);
    corpus.val = open_shards(options.val, vocab_size);
    corpus.vocab_size = corpus.train.vocab_size();
    for (const TokenStream* stream : {&corpus.train, &corpus.val}) {
        const bool foreign = corpus.tokenizer && stream->tokenizer() != 0 &&
                             stream->tokenizer() != corpus.tokenizer->fingerprint();
        const bool apart =
            !options.val.empty() && (stream->vocab_size() != corpus.vocab_size ||
                                     (stream->tokenizer() != corpus.train.tokenizer()));
        if (foreign || apart) {
            throw Error(ErrorCode::kData,
                        fmt::format("{} were made with another tokenizer than {}",
                                    stream == &corpus.train ? options.train[0] : options.val[0],
                                    foreign ? options.tokenizer : options.train[0]),
                        "make the token files again with one tokenizer");
        }
    }
    if (options.val.empty() && options.val_fraction > 0) {
        const std::int64_t size = corpus.train.size();
        const auto kept = static_cast<std::int64_t>(options.val_fraction * double(size));
        if (kept == 0) nothing_to_validate(options, size, "tokens");
        corpus.val = corpus.train.slice(size - kept, size);
        corpus.train = corpus.train.slice(0, size - kept);
    }
    return corpus;
}

}  // namespace

Corpus prepare_corpus(const CorpusOptions& asked) {
    check(asked);
    const CorpusOptions options = with_novels(asked);
    std::vector<std::string> all = options.train;
    all.insert(all.end(), options.val.begin(), options.val.end());
    const auto token_files = std::count_if(all.begin(), all.end(), is_token_file);
    if (token_files == static_cast<std::ptrdiff_t>(all.size())) return open_token_files(options);
    if (token_files != 0) {
        throw Error(ErrorCode::kUsage,
                    "text and token files are mixed: " + fmt::format("{}", fmt::join(all, ", ")),
                    "give only text, or only token files (*.sbtk, *.bin)");
    }

    TextCorpus text{{}, {}, ready_tokenizer(options.tokenizer), options.vocab_size};
    const Paths train(options.train.begin(), options.train.end());
    if (options.val.empty() && options.val_fraction > 0) {
        std::tie(text.train, text.val) = split_tail(train, options.val_fraction);
        if (text.val.empty()) {
            std::int64_t bytes = 0;
            for (const auto& path : train)
                bytes += static_cast<std::int64_t>(InputFile(path).size());
            nothing_to_validate(options, bytes, "bytes");
        }
    } else {
        for (const auto& path : options.train) text.train.push_back({path});
        for (const auto& path : options.val) text.val.push_back({path});
    }
    return cached_corpus(text, options.cache_dir);
}

}  // namespace subbyte::data
