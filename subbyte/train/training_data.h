// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "subbyte/data/tokenizer.h"
#include "subbyte/data/windows.h"
#include "subbyte/train/config.h"
#include "subbyte/train/gradient_step.h"

namespace subbyte::train {

MicroBatch to_tensors(const data::Batch& batch);

// Tokenizer of a model folder, see data::find_tokenizer(). Null when there is none.
data::TokenizerPtr load_tokenizer(const std::string& dir);

// Tokenizer, training windows and validation windows of a run.
class TrainingData {
public:
    // Reads, tokenises and caches what [data] names. Errors: kData for files, text that is too
    // short for one window (training or validation); see data/.
    explicit TrainingData(const Config& config);
    ~TrainingData();

    const data::TokenizerPtr& tokenizer()
        const;  // null: token files of which only the size is known
    std::int64_t vocab_size() const;
    std::int64_t train_tokens() const;
    std::int64_t validation_tokens() const;

    // The micro-batches of the next step: batch_size windows cut into grad_accum equal parts.
    std::vector<MicroBatch> next_step();
    // The first eval_batches * batch_size validation windows, cut into parts of the same size.
    // Empty when the configuration asks for no validation data.
    const std::vector<MicroBatch>& validation() const;

    nlohmann::json position() const;                    // where next_step() will continue
    void set_position(const nlohmann::json& position);  // Error kData

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace subbyte::train
