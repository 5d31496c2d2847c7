// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace subbyte::ops {

// Rotary position embedding, rotate-half form (as in Hugging Face LLaMA): with d = D / 2 and angle
// a(t, j) = t * theta^(-2j / D),
//   y[.., j]     = x[.., j]     cos a - x[.., j + d] sin a
//   y[.., j + d] = x[.., j + d] cos a + x[.., j]     sin a
// x: FP32 [B, T, H, D], D even; positions start at `offset`. Differentiable. Error kUsage for an
// odd D.
at::Tensor rope(const at::Tensor& x, double theta, std::int64_t offset = 0);

}  // namespace subbyte::ops
