// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace subbyte::kernels {

// Causal softmax attention by the bfloat16 dot product: q, k, v, the probabilities and the
// gradients are rounded to bfloat16 where they are multiplied; sums, the softmax and all results
// are float32. Scores are q k^T / sqrt(head_size). Needs has_bf16_dot(). Heads are computed one by
// one: the same bits for any number of threads.
//
// float tensors are [batch, tokens, heads, head_size], bf16 copies [batch, heads, tokens,
// head_size], both contiguous.
struct AttentionShape {
    std::int64_t batch = 0, tokens = 0, heads = 0, head_size = 0;
};

// What backward needs of a forward pass.
struct AttentionCopies {
    std::uint16_t *q = nullptr, *k = nullptr, *v = nullptr;  // bf16
    float* log_sums = nullptr;  // [batch, heads, tokens]: log of the sum of exp(score)
};

// Rotary position embedding of q and k on the way in (ops/rope.h): cosines and sines of the angles,
// [tokens, head_size / 2]. Null: none.
struct Rotary {
    const float *cosines = nullptr, *sines = nullptr;
};

// y = softmax(scores) v; fills `copies`.
void attention(const AttentionShape& shape, const Rotary& rotary, const float* q, const float* k,
               const float* v, const AttentionCopies& copies, float* y);

// Gradients of q, k, v from dy = d loss / d y.
void attention_backward(const AttentionShape& shape, const Rotary& rotary,
                        const AttentionCopies& copies, const float* dy, float* dq, float* dk,
                        float* dv);

}  // namespace subbyte::kernels
