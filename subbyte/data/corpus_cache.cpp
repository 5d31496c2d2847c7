// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/corpus_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "subbyte/core/checksum.h"
#include "subbyte/core/clock.h"
#include "subbyte/core/error.h"
#include "subbyte/core/log.h"
#include "subbyte/core/temporary_folder.h"
#include "subbyte/data/encode_file.h"
#include "subbyte/data/shard_writer.h"

namespace subbyte::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kVersion = 1;  // of tokenisation and layout: a new number makes every entry again
constexpr std::uint64_t kLargestRecord = 16 << 20;  // bytes of corpus.json

// Size and checksum of what will be read: the same for a copy of the file elsewhere.
json fingerprint(const TextRange& range) {
    const InputFile file(range.path);
    const std::int64_t end = std::min(range.end, static_cast<std::int64_t>(file.size()));
    Checksum checksum;
    std::vector<std::byte> bytes(1 << 20);
    for (std::int64_t at = range.begin; at < end;) {
        const auto size = std::min<std::int64_t>(static_cast<std::int64_t>(bytes.size()), end - at);
        const std::span part(bytes.data(), static_cast<std::size_t>(size));
        file.read(static_cast<std::uint64_t>(at), part);
        checksum.update(part);
        at += size;
    }
    return {{"bytes", end - range.begin}, {"xxh64", fmt::format("{:016x}", checksum.value())}};
}

// All that the content of an entry depends on.
json inputs_of(const TextCorpus& text) {
    json inputs{{"version", kVersion}, {"train", json::array()}, {"val", json::array()}};
    for (const TextRange& range : text.train) inputs["train"].push_back(fingerprint(range));
    for (const TextRange& range : text.val) inputs["val"].push_back(fingerprint(range));
    if (text.tokenizer) {
        inputs["tokenizer"] = fmt::format("{:016x}", text.tokenizer->fingerprint());
    } else {
        inputs["vocab_size"] = text.vocab_size;
    }
    return inputs;
}

std::int64_t bytes_in(const json& fingerprints) {
    std::int64_t bytes = 0;
    for (const json& one : fingerprints) bytes += one.at("bytes").get<std::int64_t>();
    return bytes;
}

// Takes the place of `target`; when another process has just put the same content there, that one
// stays.
void keep_entry(TemporaryFolder& made, const fs::path& target) {
    std::error_code error;
    if (!made.keep_as(target, error) && !fs::exists(target / "corpus.json")) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: cannot be made: {}", target.string(), error.message()),
                    "name another folder: --set data.cache_dir=FOLDER");
    }
}

void encode_texts(const std::vector<TextRange>& texts, const Tokenizer& tokenizer,
                  const fs::path& path) {
    ShardWriter shard(path, tokenizer.vocab_size(), tokenizer.fingerprint());
    for (const TextRange& text : texts) {
        encode_file(text, tokenizer, [&](std::span<const std::int32_t> ids) { shard.append(ids); });
    }
    shard.finish();
}

TokenStream open_shard(const fs::path& path, const Tokenizer& tokenizer) {
    auto shard = std::make_shared<TokenShard>(
        path, TokenShard::Options{.vocab_size = tokenizer.vocab_size()});
    if (shard->tokenizer() != tokenizer.fingerprint()) {
        throw Error(ErrorCode::kData, path.string() + ": made with another tokenizer");
    }
    return TokenStream({std::move(shard)});
}

// Error kData when the entry is incomplete, damaged or of other inputs.
Corpus open_entry(const TextCorpus& text, const json& inputs, const fs::path& folder) {
    const json record =
        json::parse(read_text(folder / "corpus.json", kLargestRecord), nullptr, false);
    if (record.is_discarded() || record != inputs) {
        throw Error(ErrorCode::kData, (folder / "corpus.json").string() + ": is damaged");
    }
    Corpus corpus;
    corpus.tokenizer =
        text.tokenizer ? text.tokenizer : load_sentencepiece(folder / "tokenizer.model");
    corpus.vocab_size = corpus.tokenizer->vocab_size();
    corpus.train = open_shard(folder / "train.sbtk", *corpus.tokenizer);
    if (!text.val.empty()) corpus.val = open_shard(folder / "val.sbtk", *corpus.tokenizer);
    corpus.train_bytes = bytes_in(inputs["train"]);
    corpus.val_bytes = bytes_in(inputs["val"]);
    corpus.folder = folder;
    return corpus;
}

void build_entry(const TextCorpus& text, const json& inputs, const fs::path& folder) {
    TokenizerPtr tokenizer = text.tokenizer;
    if (!tokenizer) {
        log(LogLevel::kInfo,
            fmt::format("data: training a tokenizer of {} pieces on {:.1f} MB of text",
                        text.vocab_size, double(bytes_in(inputs["train"])) / 1e6));
        tokenizer = train_sentencepiece(text.train, {.vocab_size = text.vocab_size});
    }
    for (const TokenizerFile& file : tokenizer->files()) {
        write_text(folder / file.name, file.content);
    }
    encode_texts(text.train, *tokenizer, folder / "train.sbtk");
    if (!text.val.empty()) encode_texts(text.val, *tokenizer, folder / "val.sbtk");
    write_text(folder / "corpus.json", inputs.dump(2) + "\n");
}

struct Entry {
    fs::path folder;
    std::uint64_t bytes = 0;
    fs::file_time_type used;
};

// Folders of the cache with our mark in them, the one used last first. What another process removes
// meanwhile is passed over.
std::vector<Entry> entries_of(const fs::path& cache_dir) {
    std::vector<Entry> entries;
    std::error_code gone;
    for (const auto& folder : fs::directory_iterator(cache_dir, gone)) {
        const fs::file_time_type used = fs::last_write_time(folder.path() / "corpus.json", gone);
        if (gone || folder.path().filename().string().starts_with('.')) continue;
        Entry entry{folder.path(), 0, used};
        for (const auto& file : fs::directory_iterator(folder.path(), gone)) {
            const std::uint64_t bytes = file.file_size(gone);
            if (!gone) entry.bytes += bytes;
        }
        entries.push_back(std::move(entry));
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.used > b.used; });
    return entries;
}

void remove_oldest(const fs::path& cache_dir, const fs::path& kept, std::uint64_t limit) {
    std::uint64_t total = 0;
    for (const Entry& entry : entries_of(cache_dir)) {
        total += entry.bytes;
        if (total <= limit || entry.folder == kept) continue;
        std::error_code ignored;
        fs::remove_all(entry.folder, ignored);
        log(LogLevel::kInfo, fmt::format("data: {} removed, the cache holds at most {:.1f} GiB",
                                         entry.folder.string(), double(limit) / (1 << 30)));
    }
}

}  // namespace

Corpus cached_corpus(const TextCorpus& text, const fs::path& cache_dir, std::uint64_t limit) {
    const Stopwatch watch;
    const json inputs = inputs_of(text);
    const std::string name = fmt::format("{:016x}", checksum_of(inputs.dump()));
    const fs::path entry = cache_dir / name;
    if (fs::exists(entry)) {
        try {
            Corpus corpus = open_entry(text, inputs, entry);
            corpus.reused = true;
            std::error_code ignored;  // a cache that cannot be written still serves
            fs::last_write_time(entry / "corpus.json", fs::file_time_type::clock::now(), ignored);
            return corpus;
        } catch (const Error& error) {
            log(LogLevel::kWarning,
                fmt::format("data: the cached tokens are made again: {}", error.what()));
            std::error_code ignored;
            fs::remove_all(entry, ignored);
        }
    }
    make_folder(cache_dir);
    TemporaryFolder made(cache_dir / fmt::format(".{}.{}.tmp", name, ::getpid()));
    build_entry(text, inputs, made.path());
    keep_entry(made, entry);
    remove_oldest(cache_dir, entry, limit);
    Corpus corpus = open_entry(text, inputs, entry);
    log(LogLevel::kInfo,
        fmt::format("data: {} tokens for training and {} for validation in {}, {:.1f} s",
                    corpus.train.size(), corpus.val.size(), entry.string(), watch.seconds()));
    return corpus;
}

}  // namespace subbyte::data
