// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "subbyte/nn/precision.h"

namespace subbyte::nn {

// body(x), of which nothing but x is kept for backward: there body runs a second time, with the
// same bits (Chen et al., "Training Deep Nets with Sublinear Memory Cost"). `precision` is the
// table of the layers in body; observers hear of the first pass by on_discarded_forward(). The body
// must not outlive what it refers to, and its parameters get their gradients during backward.
at::Tensor recompute(std::function<at::Tensor(const at::Tensor&)> body, const at::Tensor& x,
                     const std::shared_ptr<Precision>& precision);

}  // namespace subbyte::nn
