// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/token_stream.h"

#include <fmt/format.h>

#include <algorithm>

#include "subbyte/core/checksum.h"
#include "subbyte/core/error.h"

namespace subbyte::data {
namespace {

class TokensInMemory : public TokenSource {
public:
    TokensInMemory(std::vector<std::int32_t> ids, std::int64_t vocab_size, std::uint64_t tokenizer)
        : ids_(std::move(ids)), vocab_size_(vocab_size), tokenizer_(tokenizer) {
        for (std::size_t i = 0; i < ids_.size(); ++i) {
            if (ids_[i] < 0 || ids_[i] >= vocab_size) {
                throw Error(ErrorCode::kData,
                            fmt::format("token {} is {}, the vocabulary has {} pieces", i, ids_[i],
                                        vocab_size));
            }
        }
    }
    std::string name() const override { return "tokens in memory"; }
    std::int64_t size() const override { return static_cast<std::int64_t>(ids_.size()); }
    std::int64_t vocab_size() const override { return vocab_size_; }
    std::uint64_t tokenizer() const override { return tokenizer_; }
    std::uint64_t checksum() const override {
        return checksum_of(
            {reinterpret_cast<const char*>(ids_.data()), ids_.size() * sizeof ids_[0]});
    }
    void read(std::int64_t begin, std::span<std::int64_t> to) const override {
        std::copy_n(ids_.begin() + begin, to.size(), to.begin());
    }

private:
    std::vector<std::int32_t> ids_;
    std::int64_t vocab_size_;
    std::uint64_t tokenizer_;
};

}  // namespace

TokenStream::TokenStream(std::vector<TokenSourcePtr> sources) : sources_(std::move(sources)) {
    for (const TokenSourcePtr& source : sources_) {
        end_ += source->size();
        if (source->vocab_size() != vocab_size() ||
            source->tokenizer() != sources_[0]->tokenizer()) {
            throw Error(ErrorCode::kData,
                        fmt::format("{} and {} were made with different tokenizers "
                                    "(vocabulary {} and {})",
                                    sources_[0]->name(), source->name(), vocab_size(),
                                    source->vocab_size()),
                        "make them again with one tokenizer");
        }
    }
}

TokenStream::TokenStream(std::vector<std::int32_t> ids, std::int64_t vocab_size,
                         std::uint64_t tokenizer)
    : TokenStream({std::make_shared<TokensInMemory>(std::move(ids), vocab_size, tokenizer)}) {}

std::uint64_t TokenStream::checksum() const {
    std::vector<std::uint64_t> parts;
    for (const TokenSourcePtr& source : sources_) {
        parts.push_back(source->checksum());
        parts.push_back(static_cast<std::uint64_t>(source->size()));
    }
    parts.push_back(static_cast<std::uint64_t>(begin_));
    parts.push_back(static_cast<std::uint64_t>(end_));
    return checksum_of(
        {reinterpret_cast<const char*>(parts.data()), parts.size() * sizeof parts[0]});
}

TokenStream TokenStream::slice(std::int64_t begin, std::int64_t end) const {
    if (begin < 0 || end < begin || end > size()) {
        throw Error(ErrorCode::kInternal,
                    fmt::format("slice [{}, {}) of {} tokens", begin, end, size()));
    }
    TokenStream part = *this;
    part.begin_ = begin_ + begin;
    part.end_ = begin_ + end;
    return part;
}

void TokenStream::read(std::int64_t begin, std::span<std::int64_t> to) const {
    std::int64_t at = begin_ + begin;
    if (begin < 0 || begin > size() || static_cast<std::int64_t>(to.size()) > size() - begin) {
        throw Error(ErrorCode::kInternal,
                    fmt::format("{} tokens from token {} of {}", to.size(), begin, size()));
    }
    for (const TokenSourcePtr& source : sources_) {
        if (at < source->size()) {
            const auto count = std::min(to.size(), static_cast<std::size_t>(source->size() - at));
            source->read(at, to.first(count));
            to = to.subspan(count);
            at = 0;
        } else {
            at -= source->size();
        }
        if (to.empty()) return;
    }
}

}  // namespace subbyte::data
