// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "subbyte/io/hf_config.h"

namespace subbyte::train {

// What the tensors of one storage type in a GGUF file came to.
struct ImportedType {
    std::string type;  // "Q4_1"
    double bits_per_value = 0;
    std::int64_t tensors = 0, values = 0;
};

struct GgufImport {
    std::string name;  // general.name of the file; may be empty
    io::HfLlamaConfig config;
    std::int64_t parameters = 0;
    std::int64_t tokens = 0;          // of the tokenizer
    std::string tokenizer;            // "byte-level BPE", "SentencePiece"
    std::string pre_tokenizer;        // tokenizer.ggml.pre; empty with SentencePiece
    std::string tokenizer_file;       // name of the file it became
    std::vector<ImportedType> types;  // most values first
    std::uint64_t bytes = 0;          // of the weights written, FP32
};

// Makes a Hugging Face folder of a LLaMA in a GGUF file: config.json, model.safetensors (FP32),
// tokenizer.json or tokenizer.model, tokenizer_config.json. The folder appears as a whole or not at
// all; an existing `out` must be an empty folder (Error kUsage). Error kData for the file: see
// io/gguf.h, io/gguf_llama.h, data/gguf_tokens.h and data/gguf_pieces.h; another tokenizer than
// byte-level BPE and SentencePiece; tokens that do not fit the embedding.
GgufImport import_gguf(const std::string& file, const std::string& out);

}  // namespace subbyte::train
