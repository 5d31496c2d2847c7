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
// that needs no noise, and the products that make up dX are added where they are computed. Errors
// as linear().
std::vector<at::Tensor> linear_group(const at::Tensor& x, std::vector<LinearLayer> layers);

}  // namespace subbyte::ops
