// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// A hand-written model: residual blocks of RMSNorm -> Linear -> SiLU -> Linear, then a classifier.
// The only thing that makes it ready for low precision is that its linear layers are
// subbyte::nn::Linear.
#pragma once

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/silu.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>

#include <string>
#include <vector>

#include "subbyte/nn/init.h"
#include "subbyte/nn/linear.h"
#include "subbyte/nn/rms_norm.h"

namespace example {

class BlockImpl : public torch::nn::Module {
public:
    BlockImpl(std::int64_t width, std::int64_t hidden)
        : norm(register_module("norm", subbyte::nn::RmsNorm(width, 1e-5))),
          up(register_module("up", subbyte::nn::Linear(width, hidden))),
          down(register_module("down", subbyte::nn::Linear(hidden, width))) {}

    at::Tensor forward(const at::Tensor& x) { return x + down(at::silu(up(norm(x)))); }

private:
    subbyte::nn::RmsNorm norm;
    subbyte::nn::Linear up, down;
};
TORCH_MODULE(Block);

class ResidualMlpImpl : public torch::nn::Module {
public:
    ResidualMlpImpl(std::int64_t blocks, std::int64_t width, std::int64_t hidden,
                    std::int64_t classes) {
        for (std::int64_t i = 0; i < blocks; ++i) {
            blocks_.push_back(register_module("blocks_" + std::to_string(i), Block(width, hidden)));
        }
        head_ = register_module("head", subbyte::nn::Linear(width, classes));
        subbyte::nn::initialize(*this, /*seed=*/1, /*std=*/0.04);
    }

    // x: [T, width], labels: int64 [T] -> mean cross-entropy.
    at::Tensor forward(at::Tensor x, const at::Tensor& labels) {
        for (Block& block : blocks_) x = block(x);
        return at::cross_entropy_loss(head_(x), labels);
    }

private:
    std::vector<Block> blocks_;
    subbyte::nn::Linear head_{nullptr};
};
TORCH_MODULE(ResidualMlp);

}  // namespace example
