// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "subbyte/ops/rms_norm.h"

namespace subbyte::nn {

// RMSNorm over the last axis, FP32 (see ops/rms_norm.h). The weight starts at 1.
class RmsNormImpl : public torch::nn::Module {
public:
    RmsNormImpl(std::int64_t size, double eps);
    at::Tensor forward(const at::Tensor& x);  // [..., size] -> same
    // The residual stream x + y (y may be undefined) and the norm of it.
    ops::NormedSum add(const at::Tensor& x, const at::Tensor& y, ops::Keep keep);
    at::Tensor weight;

private:
    double eps_;
};
TORCH_MODULE(RmsNorm);

}  // namespace subbyte::nn
