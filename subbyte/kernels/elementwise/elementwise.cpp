// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/elementwise/elementwise.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "subbyte/core/cpu.h"
#include "subbyte/core/float_mode.h"
#include "subbyte/core/parallel.h"
#include "subbyte/kernels/elementwise/elementwise_ops.h"

namespace subbyte::kernels {
namespace {

// Rows that share one partial sum of a weight gradient: fixed, so that the order of the sum is too.
constexpr std::int64_t kRowsPerPartial = 64;

const ElementwiseOps& ops() {
    switch (max_isa()) {
        case Isa::kAvx512: return avx512_elementwise_ops();
        case Isa::kAvx2: return avx2_elementwise_ops();
        case Isa::kReference: break;
    }
    return portable_elementwise_ops();
}

// Cuts at multiples of the vector width, so that a thread's share never changes a value.
void for_spans(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
    constexpr std::int64_t kSpan = 4096;
    parallel_for((count + kSpan - 1) / kSpan, 4, [&](std::int64_t begin, std::int64_t end) {
        const IeeeFloatScope ieee;
        const std::int64_t first = begin * kSpan, last = std::min(count, end * kSpan);
        body(first, last - first);
    });
}

}  // namespace

void softmax_losses(const float* logits, const std::int64_t* labels, std::int64_t rows,
                    std::int64_t vocabulary, float* losses, SoftmaxRow* softmax) {
    parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
        const IeeeFloatScope ieee;
        for (std::int64_t r = begin; r < end; ++r) {
            losses[r] = 0.0f;
            if (labels[r] < 0) continue;
            const float* const row = logits + r * vocabulary;
            softmax[r] = ops().softmax_row(row, vocabulary);
            losses[r] = (std::log(softmax[r].total) + softmax[r].most) - row[labels[r]];
        }
    });
}

void softmax_gradient(const float* logits, const std::int64_t* labels, const SoftmaxRow* softmax,
                      std::int64_t vocabulary, std::int64_t row0, std::int64_t row1,
                      std::int64_t col0, std::int64_t col1, float* out, std::int64_t stride) {
    const IeeeFloatScope ieee;
    for (std::int64_t r = row0; r < row1; ++r, out += stride) {
        const std::int64_t label = labels[r];
        if (label < 0) {
            std::fill_n(out, col1 - col0, 0.0f);
            continue;
        }
        ops().softmax(logits + r * vocabulary + col0, col1 - col0, softmax[r], out);
        if (label >= col0 && label < col1) out[label - col0] -= 1.0f;
    }
}

void softmax_cross_entropy(float* logits, const std::int64_t* labels, std::int64_t rows,
                           std::int64_t vocabulary, bool gradient, float* losses) {
    std::vector<SoftmaxRow> softmax(static_cast<std::size_t>(rows));
    softmax_losses(logits, labels, rows, vocabulary, losses, softmax.data());
    if (!gradient) return;
    parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
        softmax_gradient(logits, labels, softmax.data(), vocabulary, begin, end, 0, vocabulary,
                         logits + begin * vocabulary, vocabulary);
    });
}

void swiglu(const float* gate, const float* up, std::int64_t count, float* out,
            std::uint16_t* saved_gate, std::uint16_t* saved_up) {
    for_spans(count, [&](std::int64_t i, std::int64_t n) {
        ops().swiglu(gate + i, up + i, n, out + i, saved_gate ? saved_gate + i : nullptr,
                     saved_up ? saved_up + i : nullptr);
    });
}

void swiglu_backward(const float* gate, const float* up, const float* g, std::int64_t count,
                     float* gate_gradient, float* up_gradient) {
    for_spans(count, [&](std::int64_t i, std::int64_t n) {
        ops().swiglu_backward(gate + i, up + i, g + i, n, gate_gradient + i, up_gradient + i);
    });
}

void swiglu_backward(const std::uint16_t* gate, const std::uint16_t* up, const float* g,
                     std::int64_t count, float* gate_gradient, float* up_gradient) {
    for_spans(count, [&](std::int64_t i, std::int64_t n) {
        ops().swiglu_backward_bf16(gate + i, up + i, g + i, n, gate_gradient + i, up_gradient + i);
    });
}

void rms_norm(const float* x, const float* y, const float* weight, std::int64_t rows,
              std::int64_t dim, float eps, float* sum, float* out, float* inverse_rms) {
    parallel_for(rows, 16, [&](std::int64_t begin, std::int64_t end) {
        const IeeeFloatScope ieee;
        for (std::int64_t r = begin; r < end; ++r) {
            const std::int64_t i = r * dim;
            const float* const row = y != nullptr ? sum + i : x + i;
            inverse_rms[r] = ops().inverse_rms(x + i, y != nullptr ? y + i : nullptr, dim, eps,
                                               y != nullptr ? sum + i : nullptr);
            if (out != nullptr) ops().rms_norm(row, inverse_rms[r], weight, dim, out + i);
        }
    });
}

std::int64_t rms_norm_partials(std::int64_t rows) {
    return (rows + kRowsPerPartial - 1) / kRowsPerPartial;
}

void rms_norm_backward(const float* x, const float* weight, const float* inverse_rms,
                       const float* g, const float* g_sum, std::int64_t rows, std::int64_t dim,
                       float* dx, float* dweight) {
    parallel_for(rms_norm_partials(rows), 1, [&](std::int64_t begin, std::int64_t end) {
        const IeeeFloatScope ieee;
        for (std::int64_t p = begin; p < end; ++p) {
            std::fill_n(dweight + p * dim, dim, 0.0f);
            const std::int64_t last = std::min(rows, (p + 1) * kRowsPerPartial);
            for (std::int64_t r = p * kRowsPerPartial; r < last; ++r) {
                const std::int64_t i = r * dim;
                ops().rms_norm_backward_row(x + i, weight, inverse_rms[r], g + i,
                                            g_sum != nullptr ? g_sum + i : nullptr, dim, dx + i,
                                            dweight + p * dim);
            }
        }
    });
}

void rms_norm_rows(const RowShape& s, const float* x, const float* inverse_rms, const float* weight,
                   float* out) {
    const IeeeFloatScope ieee;
    for (std::int64_t r = 0; r < s.rows; ++r) {
        ops().rms_norm(x + r * s.stride, inverse_rms[r], weight, s.cols, out + r * s.out_stride);
    }
}

void swiglu_rows(const RowShape& s, const float* gate, const float* up, float* out,
                 std::uint16_t* saved_gate, std::uint16_t* saved_up) {
    const IeeeFloatScope ieee;
    for (std::int64_t r = 0; r < s.rows; ++r) {
        const std::int64_t i = r * s.stride;
        ops().swiglu(gate + i, up + i, s.cols, out + r * s.out_stride,
                     saved_gate ? saved_gate + i : nullptr, saved_up ? saved_up + i : nullptr);
    }
}

void swiglu_backward_rows(const RowShape& s, const float* gate, const float* up, const float* g,
                          float* gate_gradient, float* up_gradient) {
    const IeeeFloatScope ieee;
    for (std::int64_t r = 0; r < s.rows; ++r) {
        const std::int64_t i = r * s.stride, o = r * s.out_stride;
        ops().swiglu_backward(gate + i, up + i, g + i, s.cols, gate_gradient + o, up_gradient + o);
    }
}

void swiglu_backward_rows(const RowShape& s, const std::uint16_t* gate, const std::uint16_t* up,
                          const float* g, float* gate_gradient, float* up_gradient) {
    const IeeeFloatScope ieee;
    for (std::int64_t r = 0; r < s.rows; ++r) {
        const std::int64_t i = r * s.stride, o = r * s.out_stride;
        ops().swiglu_backward_bf16(gate + i, up + i, g + i, s.cols, gate_gradient + o,
                                   up_gradient + o);
    }
}

}  // namespace subbyte::kernels
