// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "subbyte/models/llama_config.h"
#include "subbyte/train/config.h"

namespace subbyte::train {

// Shape of the model that [model] describes: the preset, with the explicit keys laid over it.
// Without a preset, sizes that nobody gave are 0; kv_heads becomes heads, max_position
// train.seq_len. model.vocab_size 0 gives `tokenizer_vocab`. A model from model.path brings its own
// shape and is not looked at here.
models::LlamaConfig model_config(const Config& config, std::int64_t tokenizer_vocab);

}  // namespace subbyte::train
