// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The update loop in plain C++, vectorised by the compiler for the instruction set of the file that
// includes it. Everything has internal linkage: each instruction set gets its own copy.
//
// Elements are independent and every operation is rounded on its own (no contraction), so neither
// the vector width nor the way a range is cut can change a bit.
#pragma once

#include <cmath>
#include <cstring>

#include "subbyte/optim/adam_loops.h"

namespace subbyte::optim {
namespace {

inline void load(double from, double& to) { to = from; }
inline void load(float from, float& to) { to = from; }
inline void load(Bf16Bits from, float& to) {
    const std::uint32_t bits = std::uint32_t{static_cast<std::uint16_t>(from)} << 16;
    std::memcpy(&to, &bits, sizeof(to));
}

inline void store(double from, double& to) { to = from; }
inline void store(float from, float& to) { to = from; }
inline void store(float from, Bf16Bits& to) {
    std::uint32_t bits;
    std::memcpy(&bits, &from, sizeof(bits));
    const std::uint32_t nearest_even = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    // Rounding could carry a NaN into infinity.
    const bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    to = static_cast<Bf16Bits>(nan ? 0x7FC0 : nearest_even);
}

template <bool kAmsgrad, typename W, typename G, typename T>
void update_range(W* __restrict weight, T* __restrict first, T* __restrict second,
                  T* __restrict second_max, const G* __restrict grad, std::int64_t count,
                  const AdamScalars<T> c) {
    for (std::int64_t i = 0; i < count; ++i) {
        T w, g;
        load(weight[i], w);
        load(grad[i], g);
        g *= c.grad_scale;
        const T m = c.beta1 * first[i] + c.rest1 * g;
        T v = c.beta2 * second[i] + c.rest2 * (g * g);
        first[i] = m;
        second[i] = v;
        if constexpr (kAmsgrad) {
            v = second_max[i] < v ? v : second_max[i];
            second_max[i] = v;
        }
        const T denominator = std::sqrt(v) * c.inverse_correction2 + c.eps;
        store(w * c.decay - c.step_size * m / denominator, weight[i]);
    }
}

template <typename W, typename G, typename T>
void update_span(const AdamSpan<W, G, T>& s, const AdamScalars<T>& scalars) {
    const auto loop = s.second_max ? update_range<true, W, G, T> : update_range<false, W, G, T>;
    loop(s.weight, s.first, s.second, s.second_max, s.grad, s.count, scalars);
}

constexpr AdamLoops kAdamLoops{
    update_span<double, double, double>,
    update_span<float, float, float>,
    update_span<Bf16Bits, Bf16Bits, float>,
    update_span<Bf16Bits, float, float>,
};

}  // namespace
}  // namespace subbyte::optim
