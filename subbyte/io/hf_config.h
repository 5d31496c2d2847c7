// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace subbyte::io {

// config.json of a LLaMA model as Hugging Face's transformers writes it (releases 4 and 5), with
// its names.
struct HfLlamaConfig {
    std::int64_t vocab_size = 0;
    std::int64_t hidden_size = 0;
    std::int64_t intermediate_size = 0;
    std::int64_t num_hidden_layers = 0;
    std::int64_t num_attention_heads = 0;
    std::int64_t num_key_value_heads = 0;
    std::int64_t head_dim = 0;
    std::int64_t max_position_embeddings = 2048;
    double rms_norm_eps = 1e-6;
    double rope_theta = 10000.0;
    bool tie_word_embeddings = false;
    std::optional<std::int64_t> bos_token_id;
    std::vector<std::int64_t> eos_token_id;  // one or several; empty: not said

    friend bool operator==(const HfLlamaConfig&, const HfLlamaConfig&) = default;
};

// Reads the parsed file. What is absent has the default of transformers (one key/value head per
// head, head_dim = hidden_size / num_attention_heads). Error kData that begins with `file` and
// names the key: missing or of another type, out of range, shapes that do not fit each other, and
// everything that would compute something else than our LLaMA: another model_type or hidden_act,
// attention_bias, mlp_bias, attention_dropout, rope scaling, partial rotation, quantised weights.
HfLlamaConfig parse_hf_llama_config(const nlohmann::json& json, const std::string& file);
HfLlamaConfig read_hf_llama_config(const std::filesystem::path& path);

// The file for transformers. rope_theta is written in both places, where release 4 and where 5
// reads it. `dtype`: "float32", "bfloat16", ...: what the weights beside it are stored in.
nlohmann::ordered_json to_json(const HfLlamaConfig& config, const std::string& dtype);
void write_hf_llama_config(const std::filesystem::path& path, const HfLlamaConfig& config,
                           const std::string& dtype);

}  // namespace subbyte::io
