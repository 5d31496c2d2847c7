// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "subbyte/data/text_reader.h"

namespace subbyte::data {

// Text to ids and back. All methods may be called from any thread.
class Tokenizer {
public:
    virtual ~Tokenizer() = default;

    // Ids of UTF-8 text, without begin and end marks. Error kData for text that is not UTF-8.
    std::vector<std::int32_t> encode(std::string_view text) const;
    // The same for text that follows a line end: tokenizers which put a blank in front of a text
    // (LLaMA's) do not put one here. encode(a + b) == encode(a) + encode_rest(b) if `a` ends a
    // line.
    std::vector<std::int32_t> encode_rest(std::string_view text) const;

    // UTF-8 text. Marks vanish; bytes that form no character become U+FFFD. Error kData for an id
    // outside [0, vocab_size).
    std::string decode(std::span<const std::int32_t> ids) const;

    virtual std::string name() const = 0;  // "sentencepiece" or "bytes"
    virtual std::int64_t vocab_size() const = 0;
    virtual std::int32_t bos_id() const = 0;        // begin of text; -1: has none
    virtual std::int32_t eos_id() const = 0;        // end of text; -1: has none
    virtual std::uint64_t fingerprint() const = 0;  // equal for equal models
    // What a .model file holds; empty for a tokenizer that needs no file.
    virtual std::string model_bytes() const = 0;

protected:
    // `first`: the text stands at the beginning. `text` is good UTF-8, `ids` are in range.
    virtual std::vector<std::int32_t> encode_valid(std::string_view text, bool first) const = 0;
    virtual std::string decode_valid(std::span<const std::int32_t> ids) const = 0;
};

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

// Ids 0..255 are the bytes, 256 and 257 the begin and the end of a text.
TokenizerPtr make_byte_tokenizer();

// A SentencePiece model file, of any type that has byte pieces (byte_fallback; without them line
// ends and rare characters would be lost). decode(encode(x)) == x when the model's normalisation is
// the identity, as for those trained here. Error kData.
TokenizerPtr load_sentencepiece(const std::filesystem::path& path);
// The same from the content of such a file; `name` stands in messages.
TokenizerPtr parse_sentencepiece(std::string_view model, const std::string& name);

struct TokenizerTraining {
    std::int64_t vocab_size = 8192;
    double character_coverage = 0.9995;
    // Larger texts are thinned out evenly, every n-th line: time and memory grow with the text.
    std::int64_t max_bytes = 64 << 20;
};

// Trains a byte-pair encoding with SentencePiece: 3 marks, 256 bytes, then pieces; digits are
// single; lossless. Equal texts give equal models. A small text may give fewer pieces than asked
// for, which is logged. Errors: kData for the texts, kUsage when vocab_size does not even hold the
// characters.
TokenizerPtr train_sentencepiece(const std::vector<TextRange>& texts,
                                 const TokenizerTraining& options);

}  // namespace subbyte::data
