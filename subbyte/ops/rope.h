// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace subbyte::ops {

// Rotary position embedding, rotate-half form (as in Hugging Face LLaMA): with d = D / 2 and angle
// a(t, j) = t * theta^(-2j / D),
//   y[.., j]     = x[.., j]     cos a - x[.., j + d] sin a
//   y[.., j + d] = x[.., j + d] cos a + x[.., j]     sin a
// x: FP32 [B, T, H, D], D even; positions start at `offset`. Differentiable. Error kUsage for an
// odd D.
at::Tensor rope(const at::Tensor& x, double theta, std::int64_t offset = 0);

// Cosines and sines of the angles of positions [0, tokens), row by row of `half`.
struct RopeAngles {
    std::int64_t tokens = 0;
    std::vector<float> cosines, sines;
};

// A table of at least `tokens` positions for D = 2 * half, made at the first call.
std::shared_ptr<const RopeAngles> rope_angles(double theta, std::int64_t half, std::int64_t tokens);

}  // namespace subbyte::ops
