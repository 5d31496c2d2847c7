// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>

#include "subbyte/models/llama.h"
#include "subbyte/nn/attach.h"
#include "subbyte/nn/init.h"

namespace subbyte {

// A LLaMA of 50 pieces and width 32 with grouped queries, connected to a precision table (the head
// in FP32, `recipe` elsewhere), and a batch of 2 x 16 random ids.
struct SmallLlama {
    explicit SmallLlama(std::int64_t layers, const std::string& recipe = "fp32") {
        models::LlamaConfig config;
        config.vocab_size = 50;
        config.hidden_size = 32;
        config.intermediate_size = 48;
        config.layers = layers;
        config.heads = 4;
        config.kv_heads = 2;
        config.max_position = 16;
        model = models::Llama(config);
        nn::initialize(*model, 5);
        precision = nn::attach_precision(*model, {"lm_head"}, "fp32");
        precision->set_plan(plan::uniform_plan(precision->table(), recipe));
        at::manual_seed(3);
        ids = at::randint(50, {2, 16}, at::kLong);
        targets = at::randint(50, {2, 16}, at::kLong);
    }

    models::Llama model{nullptr};
    std::shared_ptr<nn::Precision> precision;
    at::Tensor ids, targets;
};

}  // namespace subbyte
