// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace subbyte::ops {

// Scalar reductions in double precision and a fixed order: chunks of 4096 elements, each summed in
// order, the chunk sums added in order. Same bits for any thread count (a full at::sum() is not).
// FP32, FP64 and BF16 tensors; non-contiguous ones are copied.
double sum(const at::Tensor& x);
double squared_norm(const at::Tensor& x);
double norm(const at::Tensor& x);                                  // Frobenius
double dot(const at::Tensor& a, const at::Tensor& b);              // <a, b>, same shape
double difference_norm(const at::Tensor& a, const at::Tensor& b);  // |a - b|
double abs_max(const at::Tensor& x);                               // NaN when any element is NaN
bool all_finite(const at::Tensor& x);

}  // namespace subbyte::ops
