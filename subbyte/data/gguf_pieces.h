// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace subbyte::data {

// What a GGUF file says of a tokenizer of the kind "llama": a SentencePiece model of type BPE.
struct GgufPieces {
    std::vector<std::string> tokens;  // by id, blanks as U+2581
    std::vector<double> scores;
    std::vector<std::int64_t> types;  // as in SentencePiece: 1 normal, 2 unknown, 3 control,
                                      // 4 user-defined, 5 unused, 6 byte
    std::int64_t bos = -1, eos = -1, unknown = -1, padding = -1;
    bool add_bos = true, add_eos = false;
    bool add_space_prefix = true, remove_extra_whitespaces = false;
    std::string chat_template;
};

// The two files that Hugging Face's LlamaTokenizer reads, {tokenizer.model, tokenizer_config.json}.
// tokenizer.model is the ModelProto of sentencepiece_model.proto with the pieces as they are and
// no normalisation. Error kData that begins with `name` for lists of different lengths, marks that
// are no tokens, and types that are none.
std::pair<std::string, std::string> make_sentencepiece_model(const GgufPieces& pieces,
                                                             const std::string& name);

}  // namespace subbyte::data
