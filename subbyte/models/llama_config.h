// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "subbyte/plan/layer_table.h"

namespace subbyte::models {

// Shape of a LLaMA-style decoder, with the meaning of the keys of Hugging Face's config.json.
struct LlamaConfig {
    std::int64_t vocab_size = 32000;
    std::int64_t hidden_size = 512;
    std::int64_t intermediate_size = 1376;
    std::int64_t layers = 8;
    std::int64_t heads = 8;
    std::int64_t kv_heads = 8;
    std::int64_t head_dim = 0;  // 0: hidden_size / heads
    std::int64_t max_position = 2048;
    double rope_theta = 10000.0;
    double norm_eps = 1e-5;
    bool tie_embeddings = false;

    std::int64_t head_size() const { return head_dim > 0 ? head_dim : hidden_size / heads; }
    friend bool operator==(const LlamaConfig&, const LlamaConfig&) = default;
};

// Error kUsage that names the field and the values.
void check(const LlamaConfig& config);

// llama-9m, llama-60m, llama-130m, llama-350m, llama-1b, tinyllama-1.1b, openllama-3b,
// openllama-7b, llama-70b. Error kUsage with the nearest name.
LlamaConfig llama_preset(std::string_view name);
std::vector<std::string> llama_preset_names();

std::int64_t parameter_count(const LlamaConfig& config);

// The linear layers as attach_precision() finds them in the built model, for planning without
// building it. `tokens` per step; lm_head is listed but is no candidate.
plan::LayerTable layer_table(const LlamaConfig& config, std::int64_t tokens);

}  // namespace subbyte::models
