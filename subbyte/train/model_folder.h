// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "subbyte/models/llama.h"
#include "subbyte/optim/optimizer.h"

namespace subbyte::train {

// A Hugging Face LLaMA folder: config.json and model.safetensors (or shards with an index). FP16
// and BF16 weights are widened. Error kData that names file, tensor and shapes when something is
// missing, does not fit, or is left over.
models::Llama load_model(const std::string& dir);

// The shape of the model in `dir` without loading it.
models::LlamaConfig read_model_config(const std::string& dir);

// Copies `tensors` into the parameters of the model by name. `where` stands in messages. Error
// kData as above; the model is unchanged then.
void fill_parameters(models::LlamaImpl& model, const optim::NamedTensors& tensors,
                     const std::string& where);

// Parameters by Hugging Face name; they share memory with the model.
optim::NamedTensors named_parameters(const models::LlamaImpl& model);

// config.json as Hugging Face's LlamaForCausalLM reads it.
nlohmann::json model_config_json(const models::LlamaConfig& config);

}  // namespace subbyte::train
