// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace subbyte::optim {

// A BF16 number by its bits: the upper half of an FP32 number.
enum class Bf16Bits : std::uint16_t {};

// The numbers of one Adam step (AdamStep in adam_kernel.h) in the precision T of the arithmetic.
template <typename T>
struct AdamScalars {
    T decay, beta1, rest1, beta2, rest2, step_size, inverse_correction2, eps, grad_scale;
};

// The elements [0, count) of one tensor; second_max is nullptr without AMSGrad.
template <typename W, typename G, typename T>
struct AdamSpan {
    W* weight;
    T* first;
    T* second;
    T* second_max;
    const G* grad;
    std::int64_t count;
};

// The update loop, compiled for one instruction set.
struct AdamLoops {
    template <typename W, typename G, typename T>
    using Update = void (*)(const AdamSpan<W, G, T>& span, const AdamScalars<T>& scalars);

    Update<double, double, double> fp64;
    Update<float, float, float> fp32;
    Update<Bf16Bits, Bf16Bits, float> bf16;
    Update<Bf16Bits, float, float> bf16_fp32_grad;
};

const AdamLoops& adam_loops();  // for max_isa()
const AdamLoops& avx2_adam_loops();
const AdamLoops& avx512_adam_loops();

}  // namespace subbyte::optim
