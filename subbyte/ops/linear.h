// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "subbyte/ops/input_cache.h"
#include "subbyte/ops/linear_observer.h"
#include "subbyte/ops/weight_cache.h"
#include "subbyte/plan/recipe.h"

namespace subbyte::ops {

// Everything a quantised linear layer needs besides its operands.
struct LinearContext {
    std::shared_ptr<const plan::Recipe> recipe;  // in force for forward and its backward
    std::uint64_t seed = 0;                      // noise address of stochastic rounding ...
    std::uint32_t step = 0;
    std::uint32_t layer = 0;
    int micro_batch = 0;
    WeightCache* cache = nullptr;        // quantised copies of the weight; may be null
    InputCache* inputs = nullptr;        // those of an X that other layers read too; may be null
    LinearObserver* observer = nullptr;  // statistics or noise probes; usually null
    // The weight gradient may be added to weight.grad() in place, past autograd, when that exists.
    bool adds_gradients = false;
    bool discarded = false;  // backward will compute this forward pass again
};

// Y = X W^T with every GEMM quantised as the recipe says. x: FP32 [..., K], weight: FP32 [N, K],
// result FP32 [..., N]. Differentiable in x and weight with the straight-through estimator: dgrad
// and wgrad are GEMMs of the quantised operands, each quantised along its own contraction axis from
// the high-precision source. What is kept for backward is the packed operand of wgrad, not X. Error
// kUsage for wrong shapes.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const LinearContext& context);

// Error kUsage unless x is FP32 [..., K] and weight FP32 [N, K].
void check_linear(const at::Tensor& x, const at::Tensor& weight);

}  // namespace subbyte::ops
