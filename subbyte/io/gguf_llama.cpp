// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/gguf_llama.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "subbyte/core/error.h"

namespace subbyte::io {
namespace {

constexpr const char* kOtherModel = "take a plain LLaMA model (llama.cpp's architecture \"llama\")";

std::int64_t size_at(const GgufMetadata& keys, const std::string& key) {
    const std::int64_t value = keys.integer(key);
    if (value < 1 || value > (std::int64_t{1} << 31)) {
        keys.fail(key, fmt::format("is {}, a number in 1 .. 2^31 expected", value));
    }
    return value;
}

// A FP32 number as a person would have written it: 9.9999997e-06 is 1e-05.
double shortest(double value) { return std::stod(fmt::format("{}", static_cast<float>(value))); }

double positive_at(const GgufMetadata& keys, const std::string& key, double absent) {
    const double value = shortest(keys.find_number(key).value_or(absent));
    if (!(value > 0) || !std::isfinite(value)) {
        keys.fail(key, fmt::format("is {}, a positive number expected", value));
    }
    return value;
}

// Refuses what would compute something else than our LLaMA.
void check_plain(const GgufMetadata& keys, std::int64_t head_dim) {
    const auto must_be = [&](const std::string& key, std::int64_t harmless, const char* what) {
        const std::int64_t value = keys.find_integer(key).value_or(harmless);
        if (value != harmless) keys.fail(key, fmt::format("is {}: {}", value, what), kOtherModel);
    };
    must_be("llama.expert_count", 0, "mixtures of experts are not supported");
    must_be("llama.attention.value_length", head_dim, "other sizes of values than of keys");
    must_be("llama.rope.dimension_count", head_dim, "partial rotation is not supported");
    const std::string scaling = keys.find_text("llama.rope.scaling.type").value_or("none");
    if (scaling != "none") {
        keys.fail("llama.rope.scaling.type",
                  fmt::format("is '{}': scaled rotary embedding is not supported", scaling),
                  kOtherModel);
    }
    for (const char* key : {"llama.rope.scale_linear", "llama.rope.scaling.factor"}) {
        const double factor = keys.find_number(key).value_or(1);
        if (factor != 1 && factor != 0) {
            keys.fail(key, fmt::format("is {}: scaled rotary embedding is not supported", factor),
                      kOtherModel);
        }
    }
}

}  // namespace

HfLlamaConfig gguf_llama_config(const GgufFile& file) {
    const GgufMetadata& keys = file.metadata();
    const std::string architecture = keys.text("general.architecture");
    if (architecture != "llama") {
        keys.fail("general.architecture",
                  fmt::format("is '{}', only 'llama' can be read", architecture), kOtherModel);
    }
    HfLlamaConfig c;
    c.hidden_size = size_at(keys, "llama.embedding_length");
    c.intermediate_size = size_at(keys, "llama.feed_forward_length");
    c.num_hidden_layers = size_at(keys, "llama.block_count");
    c.num_attention_heads = size_at(keys, "llama.attention.head_count");
    c.num_key_value_heads = keys.contains("llama.attention.head_count_kv")
                                ? size_at(keys, "llama.attention.head_count_kv")
                                : c.num_attention_heads;
    c.max_position_embeddings = size_at(keys, "llama.context_length");
    c.rms_norm_eps = positive_at(keys, "llama.attention.layer_norm_rms_epsilon", 1e-5);
    c.rope_theta = positive_at(keys, "llama.rope.freq_base", 10000);
    if (c.num_attention_heads % c.num_key_value_heads != 0) {
        keys.fail("llama.attention.head_count",
                  fmt::format("is {}, no multiple of the {} key/value heads", c.num_attention_heads,
                              c.num_key_value_heads));
    }
    if (keys.contains("llama.attention.key_length")) {
        c.head_dim = size_at(keys, "llama.attention.key_length");
    } else if (c.hidden_size % c.num_attention_heads == 0) {
        c.head_dim = c.hidden_size / c.num_attention_heads;
    } else {
        keys.fail("llama.embedding_length", fmt::format("is {}, no multiple of the {} heads",
                                                        c.hidden_size, c.num_attention_heads));
    }
    if (c.head_dim % 2 != 0) {
        keys.fail("llama.attention.head_count",
                  fmt::format("is {}: heads of {} values, rotary embedding turns pairs",
                              c.num_attention_heads, c.head_dim));
    }
    check_plain(keys, c.head_dim);
    c.vocab_size = file.info("token_embd.weight").shape.front();
    c.tie_word_embeddings = !file.contains("output.weight");
    c.bos_token_id = keys.find_integer("tokenizer.ggml.bos_token_id");
    if (const auto eos = keys.find_integer("tokenizer.ggml.eos_token_id")) c.eos_token_id = {*eos};
    return c;
}

std::vector<GgufParameter> gguf_llama_parameters(const GgufFile& file, const HfLlamaConfig& c) {
    // More blocks than tensors would be refused below, one name at a time.
    const auto tensors = static_cast<std::int64_t>(file.tensors().size());
    if (c.num_hidden_layers > tensors) {
        file.metadata().fail("llama.block_count", fmt::format("is {}, the file has {} tensors",
                                                              c.num_hidden_layers, tensors));
    }
    const std::int64_t d = c.hidden_size, mlp = c.intermediate_size, heads = c.num_attention_heads,
                       kv_heads = c.num_key_value_heads, q = heads * c.head_dim,
                       kv = kv_heads * c.head_dim;
    std::vector<GgufParameter> all{
        {"token_embd.weight", "model.embed_tokens.weight", {c.vocab_size, d}},
        {"output_norm.weight", "model.norm.weight", {d}}};
    if (!c.tie_word_embeddings)
        all.push_back({"output.weight", "lm_head.weight", {c.vocab_size, d}});
    for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
        const auto add = [&](const char* gguf, const char* hf, std::vector<std::int64_t> shape,
                             std::int64_t turned = 0) {
            all.push_back({fmt::format("blk.{}.{}.weight", i, gguf),
                           fmt::format("model.layers.{}.{}.weight", i, hf), std::move(shape),
                           turned});
        };
        add("attn_norm", "input_layernorm", {d});
        add("attn_q", "self_attn.q_proj", {q, d}, heads);
        add("attn_k", "self_attn.k_proj", {kv, d}, kv_heads);
        add("attn_v", "self_attn.v_proj", {kv, d});
        add("attn_output", "self_attn.o_proj", {d, q});
        add("ffn_norm", "post_attention_layernorm", {d});
        add("ffn_gate", "mlp.gate_proj", {mlp, d});
        add("ffn_up", "mlp.up_proj", {mlp, d});
        add("ffn_down", "mlp.down_proj", {d, mlp});
    }
    std::set<std::string> used;
    for (const GgufParameter& parameter : all) {
        const GgufTensor& tensor = file.info(parameter.gguf_name);
        used.insert(parameter.gguf_name);
        if (tensor.shape != parameter.shape) {
            throw Error(
                ErrorCode::kData,
                fmt::format("{}: tensor '{}' is [{}], the keys of the file ask for [{}]",
                            file.path().string(), tensor.name, fmt::join(tensor.shape, ", "),
                            fmt::join(parameter.shape, ", ")),
                kOtherModel);
        }
    }
    for (const GgufTensor& tensor : file.tensors()) {
        if (used.contains(tensor.name)) continue;
        throw Error(
            ErrorCode::kData,
            fmt::format(
                "{}: tensor '{}' belongs to no part of a plain LLaMA{}", file.path().string(),
                tensor.name,
                tensor.name.starts_with("rope_freqs") ? ": the rotary embedding is scaled" : ""),
            kOtherModel);
    }
    return all;
}

at::Tensor load_gguf_parameter(const GgufFile& file, const GgufParameter& parameter) {
    at::Tensor stored = file.load(parameter.gguf_name);
    if (parameter.heads == 0) return stored;
    // convert_hf_to_gguf.py: reshape(heads, 2, d/2, in).swapaxes(1, 2); this is its inverse.
    const std::int64_t rows = parameter.shape[0], columns = parameter.shape[1];
    return stored.view({parameter.heads, rows / parameter.heads / 2, 2, columns})
        .transpose(1, 2)
        .reshape({rows, columns});
}

}  // namespace subbyte::io
