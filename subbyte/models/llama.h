// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>

#include "subbyte/core/philox.h"
#include "subbyte/models/llama_config.h"
#include "subbyte/nn/embedding.h"
#include "subbyte/nn/linear.h"
#include "subbyte/nn/rms_norm.h"
#include "subbyte/ops/loss.h"

namespace subbyte::models {

// LLaMA decoder (Touvron et al. 2023): pre-norm blocks of grouped-query attention with rotary
// positions and a SwiGLU MLP. Parameter names and shapes are those of Hugging Face's
// LlamaForCausalLM. FP32 master weights; every linear layer is an nn::Linear and so a slot of the
// precision plan.
class LlamaImpl : public torch::nn::Module {
public:
    explicit LlamaImpl(const LlamaConfig& config);  // Error kUsage, see check()
    ~LlamaImpl() override;

    // ids: int64 [B, T] -> FP32 logits [B, T, vocab]. Error kUsage when T exceeds max_position.
    at::Tensor forward(const at::Tensor& ids);

    // Loss of predicting targets[b, t] from ids[b, 0..t]; target -100 is ignored.
    ops::SummedLoss loss(const at::Tensor& ids, const at::Tensor& targets);

    // The same with targets drawn from the model, see ops::sample_labels().
    ops::SummedLoss sampled_loss(const at::Tensor& ids, const NoiseAddress& address);

    const LlamaConfig& config() const { return config_; }

    // Keep only the input of each block for backward, and compute the block again there. The same
    // numbers for about a third more time.
    bool recompute_blocks = false;

private:
    at::Tensor hidden(const at::Tensor& ids);  // after the last norm, [B, T, hidden_size]

    class Backbone;
    LlamaConfig config_;
    std::shared_ptr<Backbone> model_;
    nn::Linear lm_head_{nullptr};
};
TORCH_MODULE(Llama);

// Targets for `labels` in Hugging Face's convention (same positions as ids): shifted by one, the
// last position ignored.
at::Tensor shift_labels(const at::Tensor& labels);

}  // namespace subbyte::models
