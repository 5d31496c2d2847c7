// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace subbyte::data {

// Token ids that lie somewhere: in a file (TokenShard) or in memory. Constant once made; any
// thread.
class TokenSource {
public:
    virtual ~TokenSource() = default;
    virtual std::string name() const = 0;         // for messages: the path of the file
    virtual std::int64_t size() const = 0;        // ids
    virtual std::int64_t vocab_size() const = 0;  // every id is less
    virtual std::uint64_t tokenizer() const = 0;  // its fingerprint; 0: unknown
    virtual std::uint64_t checksum() const = 0;   // of the ids
    // Copies ids [begin, begin + to.size()), which must exist.
    virtual void read(std::int64_t begin, std::span<std::int64_t> to) const = 0;
};

using TokenSourcePtr = std::shared_ptr<const TokenSource>;

// Ids of one or several sources as one sequence, or a part of it. A value: copies share the
// sources.
class TokenStream {
public:
    TokenStream() = default;  // no ids
    // All must have been made with the same tokenizer: Error kData.
    explicit TokenStream(std::vector<TokenSourcePtr> sources);
    // Ids in memory. Error kData for an id outside [0, vocab_size).
    TokenStream(std::vector<std::int32_t> ids, std::int64_t vocab_size,
                std::uint64_t tokenizer = 0);

    std::int64_t size() const { return end_ - begin_; }
    std::int64_t vocab_size() const { return sources_.empty() ? 0 : sources_[0]->vocab_size(); }
    std::uint64_t tokenizer() const { return sources_.empty() ? 0 : sources_[0]->tokenizer(); }
    std::uint64_t checksum() const;  // of content and place: differs for different ids
    TokenStream slice(std::int64_t begin, std::int64_t end) const;  // of this stream's ids
    void read(std::int64_t begin, std::span<std::int64_t> to) const;

private:
    std::vector<TokenSourcePtr> sources_;
    std::int64_t begin_ = 0, end_ = 0;  // in the sequence of all sources
};

}  // namespace subbyte::data
