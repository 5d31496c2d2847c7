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

// A file that a tokenizer is kept in.
struct TokenizerFile {
    std::string name;  // in the folder of a model: "tokenizer.model"
    std::string content;
};

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

    // Where a long text may be cut so that its parts give the ids of the whole: the first such
    // place at or after `at`. text.size(): anywhere that suits; npos: not yet, more text must be
    // read.
    virtual std::size_t cut(std::string_view text, std::size_t at) const;

    virtual std::string name() const = 0;  // "sentencepiece", "bpe" or "bytes"
    virtual std::int64_t vocab_size() const = 0;
    virtual std::int32_t bos_id() const = 0;        // begin of text; -1: has none
    virtual std::int32_t eos_id() const = 0;        // end of text; -1: has none
    virtual std::uint64_t fingerprint() const = 0;  // equal for equal models
    // What find_tokenizer() and load_tokenizer_file() make the same tokenizer of.
    virtual std::vector<TokenizerFile> files() const = 0;

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

// Byte-level BPE as Hugging Face keeps it, with the ids that its tokenizers give: tokenizer.json,
// and tokenizer_config.json for the begin and end marks ("": has none). A byte without a token is
// dropped, with one warning; decode(encode(x)) == x otherwise. Error kData, see bpe_definition.h.
TokenizerPtr parse_bpe(std::string_view json, std::string_view config, const std::string& name);

// A file by its suffix: tokenizer.json (with tokenizer_config.json beside it), tokenizer.txt (the
// word "bytes"), else SentencePiece. Error kData.
TokenizerPtr load_tokenizer_file(const std::filesystem::path& path);

// The tokenizer file of a model folder: tokenizer.model, tokenizer.json or tokenizer.txt, the first
// that is there; "" when there is none.
std::filesystem::path find_tokenizer(const std::filesystem::path& folder);

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
