// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

namespace subbyte::snip {

StoredGradients::StoredGradients(const optim::Optimizer& optimizer) {
    for (const optim::Parameter& p : optimizer.parameters()) {
        parameters_.push_back(p.value);
        gradients_.push_back(std::exchange(parameters_.back().mutable_grad(), at::Tensor()));
    }
}

StoredGradients::~StoredGradients() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        parameters_[i].mutable_grad() = std::move(gradients_[i]);
    }
}

at::Tensor loss_with_graph(const LossFunction& loss) {
    const at::AutoGradMode with_gradients(true);
    return loss();
}

std::vector<at::Tensor> take_gradients(const at::Tensor& loss,
                                       const std::vector<at::Tensor>& weights, bool keep_graph) {
    torch::autograd::backward({loss}, {}, keep_graph);
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& weight : weights) {
        gradients.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
        if (!gradients.back().defined()) gradients.back() = at::zeros_like(weight.detach());
    }
    return gradients;
}

}  // namespace subbyte::snip
