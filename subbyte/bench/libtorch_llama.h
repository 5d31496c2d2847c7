// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "subbyte/models/llama_config.h"

namespace subbyte::bench {

// How PyTorch users train on a CPU.
enum class LibtorchPrecision {
    kFp32,
    kBf16Autocast,  // FP32 weights, cast for each matrix product; norms and loss in FP32
    kBf16,          // weights, gradients and optimizer states in BF16
};

// The same model as models::Llama written with LibTorch's own operators and trained with its fused
// AdamW: what subbyte's step is compared with. Weights are random; the time does not depend on
// them.
class LibtorchLlama {
public:
    LibtorchLlama(const models::LlamaConfig& config, LibtorchPrecision precision);

    // One training step: forward, backward, AdamW. ids [B, T] and targets [B, T], int64. Returns
    // the loss.
    double step(const at::Tensor& ids, const at::Tensor& targets);

private:
    struct Block {
        at::Tensor norm1, q, k, v, o, norm2, gate, up, down;
    };

    at::Tensor parameter(at::IntArrayRef shape);
    at::Tensor linear(const at::Tensor& x, const at::Tensor& weight) const;
    at::Tensor norm(const at::Tensor& x, const at::Tensor& weight) const;
    at::Tensor rope(const at::Tensor& x) const;
    at::Tensor block(const at::Tensor& x, const Block& b) const;
    void update();

    models::LlamaConfig config_;
    LibtorchPrecision precision_;
    at::Tensor embedding_, norm_, head_, cos_, sin_;
    std::vector<Block> blocks_;
    std::vector<at::Tensor> parameters_, first_, second_, counts_;
};

}  // namespace subbyte::bench
