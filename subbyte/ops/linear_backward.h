// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "subbyte/ops/linear.h"

namespace subbyte::ops {

// A weight that a backward pass needs as the forward pass saw it.
class KeptWeight {
public:
    KeptWeight() = default;
    explicit KeptWeight(const at::Tensor& weight);

    // The weight. Error kUsage when it was released or has changed since.
    const at::Tensor& get(const LinearContext& context) const;
    void release() { weight_.reset(); }

private:
    at::Tensor weight_;  // the parameter itself (no copy)
    std::uint32_t version_ = 0;
};

// What a layer keeps for its backward pass.
struct KeptLayer {
    LinearContext context;
    KeptWeight weight;
    QuantizedTensor x_wgrad;  // X^T packed along T

    KeptLayer() = default;
    KeptLayer(const at::Tensor& w, const LinearContext& c, QuantizedTensor x)
        : context(c), weight(w), x_wgrad(std::move(x)) {
        context.inputs = nullptr;  // lives as long as the forward pass
    }
    void release() {
        weight.release();
        x_wgrad = {};
    }
};

// dW = G^T X from copies that are packed along T. Later micro-batches of a step add their product
// straight to the gradient of the weight; the result is undefined then.
at::Tensor weight_gradient(const QuantizedTensor& g, const QuantizedTensor& x,
                           const at::Tensor& weight, const LinearContext& context);

}  // namespace subbyte::ops
