// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/linear_backward.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/variable.h>

#include "subbyte/core/error.h"

namespace subbyte::ops {
namespace {

bool adds_to_gradient(const at::Tensor& weight, const LinearContext& context) {
    const at::Tensor& grad = weight.grad();
    return context.adds_gradients && context.observer == nullptr && grad.defined() &&
           grad.scalar_type() == at::kFloat && grad.is_contiguous() &&
           torch::autograd::impl::post_acc_grad_hooks(weight) == nullptr;
}

}  // namespace

KeptWeight::KeptWeight(const at::Tensor& weight) : weight_(weight), version_(weight._version()) {}

const at::Tensor& KeptWeight::get(const LinearContext& context) const {
    if (!weight_.defined()) {
        throw Error(ErrorCode::kUsage, "backward was called twice through the same linear layer",
                    "run the forward pass again before the second backward");
    }
    if (weight_._version() != version_) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("the weight of linear layer {} was changed between its forward "
                                "and backward pass",
                                context.layer),
                    "step the optimizer only after backward");
    }
    return weight_;
}

at::Tensor weight_gradient(const QuantizedTensor& g, const QuantizedTensor& x,
                           const at::Tensor& weight, const LinearContext& context) {
    if (!adds_to_gradient(weight, context)) return gemm(g, x, "wgrad");
    add_gemm(g, x, weight.mutable_grad(), "wgrad");
    return {};
}

}  // namespace subbyte::ops
