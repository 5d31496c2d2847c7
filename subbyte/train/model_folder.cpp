// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/model_folder.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/io/checkpoint.h"
#include "subbyte/io/hf_config.h"
#include "subbyte/io/model_folder.h"

namespace subbyte::train {
namespace {

std::string shape_text(at::IntArrayRef shape) {
    return fmt::format("[{}]", fmt::join(shape.vec(), ", "));
}

}  // namespace

models::LlamaConfig read_model_config(const std::string& dir) {
    const io::HfLlamaConfig hf =
        io::read_hf_llama_config(std::filesystem::path(dir) / "config.json");
    models::LlamaConfig config;
    config.vocab_size = hf.vocab_size;
    config.hidden_size = hf.hidden_size;
    config.intermediate_size = hf.intermediate_size;
    config.layers = hf.num_hidden_layers;
    config.heads = hf.num_attention_heads;
    config.kv_heads = hf.num_key_value_heads;
    config.head_dim = hf.head_dim * hf.num_attention_heads == hf.hidden_size ? 0 : hf.head_dim;
    config.max_position = hf.max_position_embeddings;
    config.rope_theta = hf.rope_theta;
    config.norm_eps = hf.rms_norm_eps;
    config.tie_embeddings = hf.tie_word_embeddings;
    return config;
}

nlohmann::json model_config_json(const models::LlamaConfig& config) {
    io::HfLlamaConfig hf;
    hf.vocab_size = config.vocab_size;
    hf.hidden_size = config.hidden_size;
    hf.intermediate_size = config.intermediate_size;
    hf.num_hidden_layers = config.layers;
    hf.num_attention_heads = config.heads;
    hf.num_key_value_heads = config.kv_heads;
    hf.head_dim = config.head_size();
    hf.max_position_embeddings = config.max_position;
    hf.rms_norm_eps = config.norm_eps;
    hf.rope_theta = config.rope_theta;
    hf.tie_word_embeddings = config.tie_embeddings;
    return io::to_json(hf, "float32");
}

optim::NamedTensors named_parameters(const models::LlamaImpl& model) {
    optim::NamedTensors result;
    for (const auto& item : model.named_parameters())
        result.emplace_back(item.key(), item.value().detach());
    return result;
}

void fill_parameters(models::LlamaImpl& model, const optim::NamedTensors& tensors,
                     const std::string& where) {
    std::map<std::string, at::Tensor> left(tensors.begin(), tensors.end());
    // A tied head is the embedding; some files store it twice.
    if (model.config().tie_embeddings) left.erase("lm_head.weight");
    std::vector<std::pair<at::Tensor, at::Tensor>> copies;
    for (const auto& item : model.named_parameters()) {
        const auto found = left.find(item.key());
        if (found == left.end()) {
            throw Error(ErrorCode::kData,
                        fmt::format("{}: tensor '{}' is missing", where, item.key()),
                        "the weights belong to another model than config.json describes");
        }
        if (found->second.sizes() != item.value().sizes()) {
            throw Error(
                ErrorCode::kData,
                fmt::format("{}: tensor '{}' is {}, the model needs {}", where, item.key(),
                            shape_text(found->second.sizes()), shape_text(item.value().sizes())),
                "the weights belong to another model");
        }
        if (!found->second.is_floating_point()) {
            throw Error(ErrorCode::kData,
                        fmt::format("{}: tensor '{}' is not floating point ({})", where, item.key(),
                                    c10::toString(found->second.scalar_type())));
        }
        copies.emplace_back(item.value(), found->second);
        left.erase(found);
    }
    if (!left.empty()) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: tensor '{}' belongs to no parameter of the model", where,
                                left.begin()->first),
                    "the weights belong to another model than config.json describes");
    }
    at::NoGradGuard no_grad;
    for (auto& [parameter, value] : copies) parameter.copy_(value);
}

models::Llama load_model(const std::string& dir) {
    if (std::filesystem::exists(std::filesystem::path(dir) / io::Manifest::kFileName)) {
        io::verify_checkpoint(dir);
    }
    models::Llama model(read_model_config(dir));
    const std::map<std::string, at::Tensor> tensors = io::ModelFolder(dir).load_all();
    fill_parameters(*model, {tensors.begin(), tensors.end()}, dir);
    return model;
}

}  // namespace subbyte::train
