// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "subbyte/ops/kept_activation.h"

namespace subbyte::ops {

// silu(gate) * up (Shazeer, "GLU Variants Improve Transformer"), FP32, same shapes. What is kept
// for backward are the two inputs, as `keep` says. Error kUsage for other shapes or dtypes.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, Keep keep);

}  // namespace subbyte::ops
