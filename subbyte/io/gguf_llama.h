// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subbyte/io/gguf.h"
#include "subbyte/io/hf_config.h"

namespace subbyte::io {

// A tensor of a GGUF file and the parameter of Hugging Face's LlamaForCausalLM it becomes.
struct GgufParameter {
    std::string gguf_name;  // "blk.0.attn_q.weight"
    std::string hf_name;    // "model.layers.0.self_attn.q_proj.weight"
    std::vector<std::int64_t> shape;
    // q and k: rows of this many heads are stored for rotating neighbours (2i, 2i + 1) and go back
    // to Hugging Face's order for rotating halves (i, i + d/2). 0: rows stay.
    std::int64_t heads = 0;
};

// The shape of the LLaMA in `file`, from the keys llama.* and the rows of the embedding. Error
// kData that names the key: another architecture, experts, scaled or partial rotary embedding,
// sizes that differ from block to block, or sizes that do not fit each other.
HfLlamaConfig gguf_llama_config(const GgufFile& file);

// All parameters of the model, checked against the tensors of the file: each must be there with the
// right shape, and nothing may be left over. Error kData.
std::vector<GgufParameter> gguf_llama_parameters(const GgufFile& file, const HfLlamaConfig& config);

// FP32 [parameter.shape], rows in Hugging Face's order.
at::Tensor load_gguf_parameter(const GgufFile& file, const GgufParameter& parameter);

}  // namespace subbyte::io
