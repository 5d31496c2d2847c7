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

// out = silu(gate) * up, silu(x) = x / (1 + exp(-x)). When they are not null, saved_gate and
// saved_up receive bf16 copies of the inputs.
void swiglu(const float* gate, const float* up, std::int64_t count, float* out,
            std::uint16_t* saved_gate, std::uint16_t* saved_up);

// Gradients of gate and up from g = d loss / d out; inputs as float32 or as their bf16 copies.
void swiglu_backward(const float* gate, const float* up, const float* g, std::int64_t count,
                     float* gate_gradient, float* up_gradient);
void swiglu_backward(const std::uint16_t* gate, const std::uint16_t* up, const float* g,
                     std::int64_t count, float* gate_gradient, float* up_gradient);

}  // namespace subbyte::kernels
