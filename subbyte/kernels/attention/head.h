// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "subbyte/kernels/attention/attention.h"

namespace subbyte::kernels {

// One head of attention.h. float rows (one per token) lie `stride` floats apart, bf16 rows side by
// side.
struct Head {
    std::int64_t tokens, size, stride;
    float scale;  // of the scores
    const std::uint16_t *q, *k, *v;
    float* log_sums;
};

// Rows of x, rotated, in BF16.
void to_bf16_avx512(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t cols,
                    const Rotary& rotary, std::uint16_t* out);
// The inverse rotation in place, which is that of gradients.
void rotate_back_avx512(float* x, std::int64_t stride, std::int64_t rows, std::int64_t cols,
                        const Rotary& rotary);
void attention_head_avx512(const Head& head, float* y);
void attention_head_backward_avx512(const Head& head, const float* dy, float* dq, float* dk,
                                    float* dv);

}  // namespace subbyte::kernels
