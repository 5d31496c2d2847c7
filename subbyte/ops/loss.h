// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace subbyte::ops {

inline constexpr std::int64_t kIgnoredLabel = -100;

// A loss before it is averaged, so that micro-batches of different size can be joined correctly:
// mean = sum over micro-batches of `sum` / sum of `count`.
struct SummedLoss {
    at::Tensor sum;          // FP32 scalar, differentiable
    std::int64_t count = 0;  // targets that were not ignored
};

// The labels as one contiguous int64 row, and how many of them count. Error kUsage when there are
// not `rows` of them, or when one is out of range.
at::Tensor checked_labels(const at::Tensor& labels, std::int64_t vocabulary, std::int64_t rows,
                          std::int64_t* count);

// Cross-entropy of logits [..., V] against labels [...] (int64); label -100 is ignored. Error
// kUsage when a label is out of range.
SummedLoss cross_entropy(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace subbyte::ops
