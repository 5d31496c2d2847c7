// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace subbyte::nn {

// Table of `count` vectors of `size`, FP32.
class EmbeddingImpl : public torch::nn::Module {
public:
    EmbeddingImpl(std::int64_t count, std::int64_t size);
    // ids: int64 [...] -> FP32 [..., size]. Error kUsage when an id is outside the table.
    at::Tensor forward(const at::Tensor& ids);
    at::Tensor weight;
};
TORCH_MODULE(Embedding);

}  // namespace subbyte::nn
