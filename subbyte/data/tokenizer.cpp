// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/tokenizer.h"

#include <fmt/format.h>

#include "subbyte/core/checksum.h"
#include "subbyte/core/error.h"
#include "subbyte/data/utf8.h"

namespace subbyte::data {
namespace {

void check_text(std::string_view text) {
    if (const std::size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
        throw Error(ErrorCode::kData,
                    fmt::format("text for the tokenizer: byte {} (0x{:02X}) is not UTF-8", bad,
                                static_cast<unsigned char>(text[bad])),
                    "give UTF-8 text");
    }
}

class ByteTokenizer : public Tokenizer {
public:
    std::string name() const override { return "bytes"; }
    std::int64_t vocab_size() const override { return 258; }
    std::int32_t bos_id() const override { return 256; }
    std::int32_t eos_id() const override { return 257; }
    std::uint64_t fingerprint() const override { return checksum_of("byte tokenizer 1"); }
    std::vector<TokenizerFile> files() const override { return {{"tokenizer.txt", "bytes\n"}}; }

protected:
    std::vector<std::int32_t> encode_valid(std::string_view text, bool) const override {
        std::vector<std::int32_t> ids;
        ids.reserve(text.size());
        for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
        return ids;
    }
    std::string decode_valid(std::span<const std::int32_t> ids) const override {
        std::string bytes;
        for (const std::int32_t id : ids) {
            if (id < 256) bytes += static_cast<char>(id);
        }
        return repair_utf8(bytes);
    }
};

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
    check_text(text);
    return encode_valid(text, true);
}

std::vector<std::int32_t> Tokenizer::encode_rest(std::string_view text) const {
    check_text(text);
    return encode_valid(text, false);
}

// Behind a line end.
std::size_t Tokenizer::cut(std::string_view text, std::size_t at) const {
    const std::size_t line = text.find('\n', at);
    return line == text.npos ? text.size() : line + 1;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < 0 || ids[i] >= vocab_size()) {
            throw Error(ErrorCode::kData,
                        fmt::format("token {} is {}, the vocabulary has {} pieces", i, ids[i],
                                    vocab_size()),
                        "these ids were made with another tokenizer");
        }
    }
    return decode_valid(ids);
}

TokenizerPtr make_byte_tokenizer() { return std::make_shared<ByteTokenizer>(); }

}  // namespace subbyte::data
