// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs differentiable ops, to compare the bits of what they give.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "subbyte/ops/linear.h"

namespace subbyte::ops {

using Tensors = std::vector<at::Tensor>;

// The outputs of `op` and the gradients of the inputs that it uses.
inline Tensors run(const std::function<Tensors(const Tensors&)>& op, const Tensors& inputs) {
    Tensors leaves;
    for (const at::Tensor& x : inputs) leaves.push_back(x.clone().requires_grad_(true));
    const Tensors outputs = op(leaves);
    at::manual_seed(9);
    at::Tensor loss = at::zeros({});
    for (const at::Tensor& y : outputs) loss = loss + (y * at::randn(y.sizes())).sum();
    loss.backward();
    Tensors all;
    for (const at::Tensor& y : outputs) all.push_back(y.detach());
    for (const at::Tensor& x : leaves) {
        if (x.grad().defined()) all.push_back(x.grad());
    }
    return all;
}

inline void expect_equal(const Tensors& a, const Tensors& b, const std::string& what) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_TRUE(at::equal(a[i], b[i])) << what << ", tensor " << i;
    }
}

inline LinearContext context_of(const plan::Recipe& recipe, std::uint32_t layer) {
    LinearContext context;
    context.recipe = std::make_shared<const plan::Recipe>(recipe);
    context.seed = 7;
    context.step = 3;
    context.layer = layer;
    return context;
}

}  // namespace subbyte::ops
