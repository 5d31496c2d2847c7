// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace subbyte::kernels {

// The parts of a training step between its GEMMs, each in one pass over memory. Written once in
// portable vectors and compiled for every instruction set (elementwise-inl.h): the bits do not
// depend on the instruction set or the thread count. exp() is within 2 ulp.
//
// bf16 pointers hold the upper halves of float32 values, rounded to nearest even.

// Loss and gradient of -log softmax(logits)[label] for every row of logits [rows, vocabulary].
// losses[r] receives the loss of row r (0 where the label is negative: not counted). With
// `gradient` the logits are overwritten with d loss / d logits, not divided by anything. Labels
// must be below vocabulary.
void softmax_cross_entropy(float* logits, const std::int64_t* labels, std::int64_t rows,
                           std::int64_t vocabulary, bool gradient, float* losses);

// What the softmax of a row is made of: its largest logit and the sum of exp(logit - most).
struct SoftmaxRow {
    float most, total;
};

// The same in two steps, the same bits: the losses alone, and what the gradient needs of every row.
void softmax_losses(const float* logits, const std::int64_t* labels, std::int64_t rows,
                    std::int64_t vocabulary, float* losses, SoftmaxRow* softmax);
// Then rows [row0, row1) x columns [col0, col1) of the gradient, rows `stride` apart, on the
// calling thread.
void softmax_gradient(const float* logits, const std::int64_t* labels, const SoftmaxRow* softmax,
                      std::int64_t vocabulary, std::int64_t row0, std::int64_t row1,
                      std::int64_t col0, std::int64_t col1, float* out, std::int64_t stride);

// out = silu(gate) * up, silu(x) = x / (1 + exp(-x)). When they are not null, saved_gate and
// saved_up receive bf16 copies of the inputs.
void swiglu(const float* gate, const float* up, std::int64_t count, float* out,
            std::uint16_t* saved_gate, std::uint16_t* saved_up);

// Gradients of gate and up from g = d loss / d out; inputs as float32 or as their bf16 copies.
void swiglu_backward(const float* gate, const float* up, const float* g, std::int64_t count,
                     float* gate_gradient, float* up_gradient);
void swiglu_backward(const std::uint16_t* gate, const std::uint16_t* up, const float* g,
                     std::int64_t count, float* gate_gradient, float* up_gradient);

// The same for `rows` rows of a matrix on the calling thread: inputs and saved copies have rows
// `stride` apart, results `out_stride`. The same bits.
struct RowShape {
    std::int64_t rows, cols, stride, out_stride;
};
void swiglu_rows(const RowShape& shape, const float* gate, const float* up, float* out,
                 std::uint16_t* saved_gate, std::uint16_t* saved_up);
void swiglu_backward_rows(const RowShape& shape, const float* gate, const float* up, const float* g,
                          float* gate_gradient, float* up_gradient);
void swiglu_backward_rows(const RowShape& shape, const std::uint16_t* gate, const std::uint16_t* up,
                          const float* g, float* gate_gradient, float* up_gradient);

// Rows of x [rows, dim], or of x + y, which go to `sum` then (y == nullptr: neither is looked at):
// inverse_rms[r] = 1 / sqrt(mean(row^2) + eps) and, unless null, out = row * inverse_rms * weight.
void rms_norm(const float* x, const float* y, const float* weight, std::int64_t rows,
              std::int64_t dim, float eps, float* sum, float* out, float* inverse_rms);
// The latter for some rows and columns on the calling thread: `x` is x or the sum there. The same
// bits.
void rms_norm_rows(const RowShape& shape, const float* x, const float* inverse_rms,
                   const float* weight, float* out);

// Gradients of the rows, x here, from those of `out` (g) and, unless null, of the rows themselves
// (g_sum). dweight [rms_norm_partials(rows), dim] receives partial sums of the gradient of the
// weight.
std::int64_t rms_norm_partials(std::int64_t rows);
void rms_norm_backward(const float* x, const float* weight, const float* inverse_rms,
                       const float* g, const float* g_sum, std::int64_t rows, std::int64_t dim,
                       float* dx, float* dweight);

}  // namespace subbyte::kernels
