// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "subbyte/models/llama.h"
#include "subbyte/optim/optimizer.h"

namespace subbyte::train {

// Token ids with labels in Hugging Face's convention (same positions, -100 ignored).
struct TokenFile {
    std::string path;
    at::Tensor ids, labels;  // int64 [B, T]; labels undefined when the file has none
};

// Reads {"input_ids": [[...], ...], "labels": [[...], ...]}; labels are optional, other keys are
// ignored. Error kData that names the file, the row and the numbers.
TokenFile read_token_file(const std::string& path);

struct TokenEvaluation {
    double loss = 0;  // mean over the counted targets; only with labels
    std::int64_t targets = 0;
    optim::NamedTensors tensors;  // "logits", "loss" (with labels), "grad.<parameter>", all FP32
};

// Logits, loss and (with `gradients`) the gradient of the loss for every parameter, in the
// precision the model is attached to. Errors: kUsage when gradients are asked for without labels;
// kData for an id or label outside of the vocabulary, rows longer than the model, and labels that
// leave no target.
TokenEvaluation evaluate_tokens(models::Llama& model, const TokenFile& tokens, bool gradients);

}  // namespace subbyte::train
