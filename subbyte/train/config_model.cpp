// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/config_model.h"

namespace subbyte::train {
namespace {

template <class T>
void override_with(T& size, T given) {
    if (given != T{}) size = given;
}

models::LlamaConfig base_shape(const Config::Model& model) {
    if (!model.preset.empty()) return models::llama_preset(model.preset);
    models::LlamaConfig shape;
    shape.hidden_size = shape.intermediate_size = shape.layers = 0;
    shape.heads = shape.kv_heads = shape.max_position = 0;
    return shape;
}

}  // namespace

models::LlamaConfig model_config(const Config& config, std::int64_t tokenizer_vocab) {
    const Config::Model& model = config.model;
    models::LlamaConfig shape = base_shape(model);
    override_with(shape.hidden_size, model.hidden_size);
    override_with(shape.intermediate_size, model.intermediate_size);
    override_with(shape.layers, model.layers);
    override_with(shape.heads, model.heads);
    if (model.preset.empty() || model.heads > 0) shape.kv_heads = shape.heads;
    override_with(shape.kv_heads, model.kv_heads);
    override_with(shape.max_position, model.max_position);
    override_with(shape.rope_theta, model.rope_theta);
    override_with(shape.norm_eps, model.norm_eps);
    shape.vocab_size = model.vocab_size > 0 ? model.vocab_size : tokenizer_vocab;
    shape.tie_embeddings = model.tie_embeddings;
    if (shape.max_position == 0) shape.max_position = config.train.seq_len;
    return shape;
}

}  // namespace subbyte::train
