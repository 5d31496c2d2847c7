// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "subbyte/ops/kept_activation.h"
#include "subbyte/ops/linear_group.h"

namespace subbyte::ops {

// linear(swiglu(linear(x, gate), linear(x, up)), down) as one op, the same bits: what is between
// the layers goes from the registers into the packed copies that their GEMMs read, and never to
// memory as a whole, and neither is an x that is computed. `keep` as in swiglu(). Falls back to the
// single ops when somebody observes a layer or a recipe computes in FP32. Errors as linear().
at::Tensor swiglu_mlp(const LayerInput& x, LinearLayer gate, LinearLayer up,
                      const LinearLayer& down, Keep keep);

}  // namespace subbyte::ops
