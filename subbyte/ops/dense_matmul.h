// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace subbyte::ops {

// GEMMs of FP32 operands are LibTorch's job: FP32 [M, N] = a [M, K] * b [N, K]^T, any strides.
// Counted in kernels::gemm_report() as "libtorch_fp32".
at::Tensor dense_matmul(const at::Tensor& a, const at::Tensor& b, std::string_view op = "gemm");

// Hands LibTorch's FP32 matmul to the kernel list, whose decode_dense needs one. Idempotent.
void install_dense_matmul();

}  // namespace subbyte::ops
