// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "subbyte/core/philox.h"

namespace subbyte::ops {

// FP32 tensor of the given shape with independent N(0, 1) elements: the normal number of element i
// depends only on (address, i) (Box-Muller on addressed Philox bits), not on threads or call order.
at::Tensor gaussian(at::IntArrayRef shape, const NoiseAddress& address);

}  // namespace subbyte::ops
