// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "subbyte/core/philox.h"

namespace subbyte::ops {

// A label per row, drawn from softmax(logits): the first one at which the summed probabilities
// exceed a number that is uniform in [0, 1) and belongs to the address and the row. logits: FP32
// [..., V], finite -> int64 [...].
at::Tensor sample_labels(const at::Tensor& logits, const NoiseAddress& address);

}  // namespace subbyte::ops
