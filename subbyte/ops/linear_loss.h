// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "subbyte/ops/linear.h"
#include "subbyte/ops/loss.h"

namespace subbyte::ops {

// cross_entropy(linear(x, weight, context), labels) without the logits [T, V] ever being there as a
// whole: groups of rows go through fprop, the loss, dgrad and wgrad one after the other, during the
// forward pass. x: FP32 [..., K], weight: FP32 [V, K], labels: int64 [...]. The operands of the
// GEMMs are those of linear(); the weight gradient is the FP32 sum of those of the groups, so its
// last bits differ. Differentiable once. Error kUsage for wrong shapes, and for a label out of
// range.
SummedLoss linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels, const LinearContext& context);

// Rows of a group: a multiple of 128, the longest tile of the common formats, with logits of about
// 64 MB.
std::int64_t loss_group_rows(std::int64_t vocabulary);

}  // namespace subbyte::ops
