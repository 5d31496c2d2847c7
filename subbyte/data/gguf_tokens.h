// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace subbyte::data {

// What a GGUF file says of a tokenizer of the kind "gpt2".
struct GgufTokens {
    std::string pre;                  // tokenizer.ggml.pre
    std::vector<std::string> tokens;  // by id
    std::vector<std::int64_t> types;  // 1 normal, 3 control, 4 user-defined, 5 unused, 6 byte
    std::vector<std::string> merges;  // "left right"
    std::int64_t bos = -1, eos = -1;
    bool add_bos = false;
    std::string chat_template;
};

// The two files that Hugging Face's AutoTokenizer reads, {tokenizer.json, tokenizer_config.json}.
// Pre-tokenizers: gpt-2, smollm, starcoder, refact, command-r, llama-bpe, llama3, llama-v3. Error
// kData that begins with `name`.
std::pair<std::string, std::string> make_tokenizer_json(const GgufTokens& tokens,
                                                        const std::string& name);

}  // namespace subbyte::data
