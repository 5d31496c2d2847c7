// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace subbyte::ops {

// Causal softmax attention, scale 1 / sqrt(D). q: [B, T, H, D], k and v: [B, T, G, D] with G
// dividing H (grouped-query attention: query head h reads group h * G / H); result [B, T, H, D];
// all FP32. With `compact`, on processors with a BF16 dot product, by kernels/attention: factors
// are rounded to BF16, and q, k and v are kept so for backward. Otherwise through LibTorch's fused
// kernel. Error kUsage when G does not divide H.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            bool compact);

// causal_attention(rope(q), rope(k), v), the same bits. The kernel of `compact` rotates on its way,
// where every query head has keys of its own.
at::Tensor rotary_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            double theta, bool compact);

}  // namespace subbyte::ops
