// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/attention/attention.h"

#include <cmath>

#include "subbyte/core/float_mode.h"
#include "subbyte/core/parallel.h"
#include "subbyte/kernels/attention/head.h"

namespace subbyte::kernels {
namespace {

// Calls body(head, offset of its first float).
template <class Body>
void for_heads(const AttentionShape& s, const AttentionCopies& copies, const Body& body) {
    if (s.tokens == 0 || s.head_size == 0) return;
    parallel_for(s.batch * s.heads, 1, [&](std::int64_t begin, std::int64_t end) {
        const IeeeFloatScope ieee;
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t packed = i * s.tokens * s.head_size;
            const std::int64_t first =
                (i / s.heads * s.tokens * s.heads + i % s.heads) * s.head_size;
            const Head head{s.tokens,
                            s.head_size,
                            s.heads * s.head_size,
                            1.0f / std::sqrt(static_cast<float>(s.head_size)),
                            copies.q + packed,
                            copies.k + packed,
                            copies.v + packed,
                            copies.log_sums + i * s.tokens};
            body(head, first, packed);
        }
    });
}

}  // namespace

void attention(const AttentionShape& shape, const Rotary& rotary, const float* q, const float* k,
               const float* v, const AttentionCopies& copies, float* y) {
    for_heads(shape, copies, [&](const Head& head, std::int64_t first, std::int64_t packed) {
        const auto copy = [&](const float* from, const Rotary& turn, std::uint16_t* to) {
            to_bf16_avx512(from + first, head.stride, head.tokens, head.size, turn, to + packed);
        };
        copy(q, rotary, copies.q);
        copy(k, rotary, copies.k);
        copy(v, {}, copies.v);
        attention_head_avx512(head, y + first);
    });
}

void attention_backward(const AttentionShape& shape, const Rotary& rotary,
                        const AttentionCopies& copies, const float* dy, float* dq, float* dk,
                        float* dv) {
    for_heads(shape, copies, [&](const Head& head, std::int64_t first, std::int64_t) {
        attention_head_backward_avx512(head, dy + first, dq + first, dk + first, dv + first);
        if (rotary.cosines == nullptr) return;
        for (float* const d : {dq, dk}) {
            rotate_back_avx512(d + first, head.stride, head.tokens, head.size, rotary);
        }
    });
}

}  // namespace subbyte::kernels
