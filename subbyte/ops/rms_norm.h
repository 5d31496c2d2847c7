// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "subbyte/ops/kept_activation.h"
#include "subbyte/ops/layer_input.h"

namespace subbyte::ops {

// y = x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang and Sennrich, "Root Mean Square
// Layer Normalization"). x: FP32 [..., D], weight: FP32 [D]. One pass forward and backward; the
// weight gradient is summed in a fixed order. The input is kept as kept_by_norms() says. Error
// kUsage for wrong shapes.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps,
                    Keep keep = Keep::kFp32);

// A residual stream and the norm of it, for a block that adds to the one and computes with the
// other: sum = x + y, or x itself when y is undefined, and normed = rms_norm(sum), computed where
// it is quantised. The bits of the single ops; the gradient of the sum comes out of one pass.
struct NormedSum {
    at::Tensor sum;
    LayerInput normed;
};
NormedSum add_rms_norm(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                       double eps, Keep keep = Keep::kFp32);

}  // namespace subbyte::ops
