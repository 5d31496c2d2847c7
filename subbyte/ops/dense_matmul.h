// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "subbyte/formats/spec.h"
#include "subbyte/kernels/kernel_list.h"

namespace subbyte::ops {

// Whether this processor multiplies BF16 natively. LibTorch's BF16 GEMMs and attention are slow
// fallback loops without.
bool has_bf16_dot();

// GEMMs of operands that carry no scales (fp32, bf16) are LibTorch's job:
//   libtorch_bf16  both BF16, on processors with a BF16 dot product; products exact, result
//                  rounded to BF16
//   libtorch_fp32  everything else; BF16 operands are widened first (exact), so the result is not
//                  rounded
// FP32 [M, N] = a [M, K] * b [N, K]^T; any strides.
at::Tensor dense_matmul(const at::Tensor& a, const at::Tensor& b);

// Lines that the list of kernels/gemm gets in front for a pair of specs, with reasons.
std::vector<kernels::Candidate> explain_dense_matmul(const formats::QuantSpec& a,
                                                     const formats::QuantSpec& b);

// Hands LibTorch's FP32 matmul to the GEMM list of kernels/ (entry decode_dense). Idempotent.
void install_dense_matmul();

}  // namespace subbyte::ops
