// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "subbyte/data/tokenizer.h"
#include "subbyte/data/windows.h"
#include "subbyte/models/llama.h"
#include "subbyte/nn/precision.h"
#include "subbyte/train/generate.h"
#include "subbyte/train/gradient_step.h"

namespace subbyte::train {

// A loaded model with its precision, and the tokenizer when its folder has one.
struct EvaluationModel {
    models::Llama model{nullptr};
    std::shared_ptr<nn::Precision> precision;
    std::string dir;
};

// Loads a Hugging Face LLaMA folder (or a checkpoint folder) and puts its linear layers into
// `recipe`, or into the plan of the file `plan` when given. The head stays in high precision: fp32
// with recipe fp32, else bf16. Errors as load_model() and plan_from_json().
EvaluationModel load_for_evaluation(const std::string& dir, const std::string& recipe,
                                    const std::string& plan);

// The windows of a text file in the tokens of a model folder. Error kData when the folder has no
// tokenizer or the text is shorter than one window.
data::Windows text_windows(const std::string& model_dir, const std::string& path,
                           std::int64_t seq_len);

struct TextEvaluationOptions {
    std::int64_t seq_len = 256, batch_size = 8, batches = 0;
};

// Mean loss over the windows of a text file. Error kData when the folder has no tokenizer or the
// text is shorter than one window.
AccumulatedLoss evaluate_text(EvaluationModel& model, const std::string& path,
                              const TextEvaluationOptions& options);

// Continues a text with the folder's tokenizer. Error kData when there is none.
std::string continue_text(EvaluationModel& model, const std::string& prompt,
                          const SamplingOptions& options);

}  // namespace subbyte::train
