// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/models/llama_config.h"

#include <fmt/format.h>

#include <utility>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"

namespace subbyte::models {
namespace {

struct Preset {
    const char* name;
    LlamaConfig config;
};

LlamaConfig shape(std::int64_t vocab, std::int64_t hidden, std::int64_t mlp, std::int64_t layers,
                  std::int64_t heads, std::int64_t kv_heads, std::int64_t positions, double eps) {
    LlamaConfig c;
    c.vocab_size = vocab;
    c.hidden_size = hidden;
    c.intermediate_size = mlp;
    c.layers = layers;
    c.heads = heads;
    c.kv_heads = kv_heads;
    c.max_position = positions;
    c.norm_eps = eps;
    return c;
}

// 60m to 1b: the shapes of the GaLore / Stable-SPAM experiments; the others as published with the
// models.
const std::vector<Preset>& presets() {
    static const std::vector<Preset> all{
        {"llama-9m", shape(8192, 256, 688, 8, 8, 8, 1024, 1e-5)},
        {"llama-60m", shape(32000, 512, 1376, 8, 8, 8, 1024, 1e-6)},
        {"llama-130m", shape(32000, 768, 2048, 12, 12, 12, 1024, 1e-6)},
        {"llama-350m", shape(32000, 1024, 2736, 24, 16, 16, 1024, 1e-6)},
        {"llama-1b", shape(32000, 2048, 5461, 24, 32, 32, 1024, 1e-6)},
        {"tinyllama-1.1b", shape(32000, 2048, 5632, 22, 32, 4, 2048, 1e-5)},
        {"openllama-3b", shape(32000, 3200, 8640, 26, 32, 32, 2048, 1e-6)},
        {"openllama-7b", shape(32000, 4096, 11008, 32, 32, 32, 2048, 1e-6)},
        {"llama-70b", shape(32000, 8192, 28672, 80, 64, 8, 4096, 1e-5)},
    };
    return all;
}

}  // namespace

void check(const LlamaConfig& c) {
    const std::pair<const char*, std::int64_t> sizes[] = {
        {"vocab_size", c.vocab_size},
        {"hidden_size", c.hidden_size},
        {"intermediate_size", c.intermediate_size},
        {"layers", c.layers},
        {"heads", c.heads},
        {"kv_heads", c.kv_heads},
        {"max_position", c.max_position}};
    for (const auto& [name, value] : sizes) {
        if (value < 1 || value > (std::int64_t{1} << 31)) {
            throw Error(ErrorCode::kUsage, fmt::format("model: {} is {}", name, value),
                        "it must be between 1 and 2^31");
        }
    }
    if (c.head_dim == 0 && c.hidden_size % c.heads != 0) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("model: hidden_size {} is not a multiple of heads {}",
                                c.hidden_size, c.heads));
    }
    if (c.head_size() % 2 != 0) {
        throw Error(ErrorCode::kUsage, fmt::format("model: head size {} is odd", c.head_size()),
                    "rotary embedding turns pairs, so hidden_size / heads must be even");
    }
    if (c.heads % c.kv_heads != 0) {
        throw Error(
            ErrorCode::kUsage,
            fmt::format("model: heads {} is not a multiple of kv_heads {}", c.heads, c.kv_heads));
    }
    if (!(c.rope_theta > 0) || !(c.norm_eps > 0)) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("model: rope_theta {} and norm_eps {} must be positive",
                                c.rope_theta, c.norm_eps));
    }
}

LlamaConfig llama_preset(std::string_view name) {
    for (const Preset& preset : presets()) {
        if (name == preset.name) return preset.config;
    }
    throw Error(ErrorCode::kUsage, fmt::format("there is no model preset '{}'", name),
                nearest_hint(name, llama_preset_names()));
}

std::vector<std::string> llama_preset_names() {
    std::vector<std::string> names;
    for (const Preset& preset : presets()) names.emplace_back(preset.name);
    return names;
}

plan::LayerTable layer_table(const LlamaConfig& c, std::int64_t tokens) {
    plan::LayerTable table;
    const auto add = [&](std::string name, std::int64_t in, std::int64_t out, bool candidate) {
        plan::LayerInfo layer;
        layer.name = std::move(name);
        layer.in_features = in;
        layer.out_features = out;
        layer.tokens = tokens;
        layer.candidate = candidate;
        plan::set_type_and_block(layer);
        table.push_back(std::move(layer));
    };
    const std::int64_t q = c.heads * c.head_size(), kv = c.kv_heads * c.head_size();
    for (std::int64_t b = 0; b < c.layers; ++b) {
        const std::string block = fmt::format("model.layers.{}.", b);
        add(block + "self_attn.q_proj", c.hidden_size, q, true);
        add(block + "self_attn.k_proj", c.hidden_size, kv, true);
        add(block + "self_attn.v_proj", c.hidden_size, kv, true);
        add(block + "self_attn.o_proj", q, c.hidden_size, true);
        add(block + "mlp.gate_proj", c.hidden_size, c.intermediate_size, true);
        add(block + "mlp.up_proj", c.hidden_size, c.intermediate_size, true);
        add(block + "mlp.down_proj", c.intermediate_size, c.hidden_size, true);
    }
    add("lm_head", c.hidden_size, c.vocab_size, false);
    return table;
}

std::int64_t parameter_count(const LlamaConfig& c) {
    std::int64_t count = c.vocab_size * c.hidden_size + c.hidden_size * (2 * c.layers + 1);
    for (const plan::LayerInfo& layer : layer_table(c, 1)) {
        if (c.tie_embeddings && layer.name == "lm_head") continue;
        count += layer.in_features * layer.out_features;
    }
    return count;
}

}  // namespace subbyte::models
