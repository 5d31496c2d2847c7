// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "subbyte/kernels/elementwise/elementwise.h"

namespace subbyte::kernels {

// The inner loops of elementwise.h for one instruction set.
struct ElementwiseOps {
    SoftmaxRow (*softmax_row)(const float* x, std::int64_t count);
    // out = softmax(x) of a part of a row.
    void (*softmax)(const float* x, std::int64_t count, const SoftmaxRow& row, float* out);
    void (*swiglu)(const float* gate, const float* up, std::int64_t count, float* out,
                   std::uint16_t* saved_gate, std::uint16_t* saved_up);
    void (*swiglu_backward)(const float* gate, const float* up, const float* g, std::int64_t count,
                            float* gate_gradient, float* up_gradient);
    void (*swiglu_backward_bf16)(const std::uint16_t* gate, const std::uint16_t* up, const float* g,
                                 std::int64_t count, float* gate_gradient, float* up_gradient);
    float (*inverse_rms)(const float* x, const float* y, std::int64_t count, float eps, float* sum);
    void (*rms_norm)(const float* x, float inverse_rms, const float* weight, std::int64_t count,
                     float* out);
    void (*rms_norm_backward_row)(const float* x, const float* weight, float inverse_rms,
                                  const float* g, const float* g_sum, std::int64_t count, float* dx,
                                  float* dweight);
};

const ElementwiseOps& portable_elementwise_ops();
const ElementwiseOps& avx2_elementwise_ops();
const ElementwiseOps& avx512_elementwise_ops();

}  // namespace subbyte::kernels
