// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "subbyte/ops/linear.h"

namespace subbyte::ops {

// A linear layer as part of an op.
struct LinearLayer {
    at::Tensor weight;
    LinearContext context;
};

// linear(x, layer) of each layer: q, k and v of one x. The same bits, but X is quantised once where
// that needs no noise, the products that make up dX are added where they are computed, and an X
// that is computed never becomes a tensor, unless somebody observes a layer, a recipe computes in
// FP32, or nothing is recorded for backward. Errors as linear().
std::vector<at::Tensor> linear_group(const LayerInput& x, std::vector<LinearLayer> layers);

}  // namespace subbyte::ops
