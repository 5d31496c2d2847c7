// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// See elementwise.h. Included by one file per instruction set.
#pragma once

#include <cmath>

#include "subbyte/kernels/elementwise/elementwise_ops.h"
#include "subbyte/kernels/elementwise/vector16-inl.h"

namespace subbyte::kernels {
namespace {

// Largest value of a row. NaN is passed over: it comes back out of the sum of the exponentials.
inline float row_max(const float* x, std::int64_t count) {
    Floats most = all(-__builtin_inff());
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        const Floats v = load(x + i);
        most = v > most ? v : most;
    }
    if (i < count) {
        const Floats v = load_part(x + i, count - i, -__builtin_inff());
        most = v > most ? v : most;
    }
    return largest(most);
}

SoftmaxRow softmax_row(const float* x, std::int64_t count) {
    const float most = row_max(x, count);
    Floats sums = {};
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) sums += exp(load(x + i) - most);
    if (i < count) sums += exp(load_part(x + i, count - i, -__builtin_inff()) - most);
    return {most, sum(sums)};
}

void softmax_span(const float* x, std::int64_t count, const SoftmaxRow& row, float* out) {
    const float scale = 1.0f / row.total;
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(out + i, exp(load(x + i) - row.most) * scale);
    if (i == count) return;
    const Floats part = load_part(x + i, count - i, 0.0f);
    store_part(out + i, count - i, exp(part - row.most) * scale);
}

inline Floats sigmoid(Floats x) { return 1.0f / (1.0f + exp(-x)); }

void swiglu_span(const float* gate, const float* up, std::int64_t count, float* out,
                 std::uint16_t* saved_gate, std::uint16_t* saved_up) {
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        const Floats a = load(gate + i), b = load(up + i);
        store(out + i, a * sigmoid(a) * b);
        if (saved_gate != nullptr) {
            store(saved_gate + i, a);
            store(saved_up + i, b);
        }
    }
    if (i == count) return;
    const Floats a = load_part(gate + i, count - i, 0.0f), b = load_part(up + i, count - i, 0.0f);
    store_part(out + i, count - i, a * sigmoid(a) * b);
    if (saved_gate != nullptr) {
        store_part(saved_gate + i, count - i, a);
        store_part(saved_up + i, count - i, b);
    }
}

// d silu(a) / da = s (1 + a (1 - s)) with s = sigmoid(a).
template <typename T>
void swiglu_backward_span(const T* gate, const T* up, const float* g, std::int64_t count,
                          float* gate_gradient, float* up_gradient) {
    std::int64_t i = 0;
    const auto gradients = [](Floats a, Floats b, Floats d, Floats* da, Floats* db) {
        const Floats s = sigmoid(a);
        *da = d * b * (s * (1.0f + a * (1.0f - s)));
        *db = d * (a * s);
    };
    Floats da, db;
    for (; i + kLanes <= count; i += kLanes) {
        gradients(load(gate + i), load(up + i), load(g + i), &da, &db);
        store(gate_gradient + i, da);
        store(up_gradient + i, db);
    }
    if (i == count) return;
    const std::int64_t rest = count - i;
    gradients(load_part(gate + i, rest, T{}), load_part(up + i, rest, T{}),
              load_part(g + i, rest, 0.0f), &da, &db);
    store_part(gate_gradient + i, rest, da);
    store_part(up_gradient + i, rest, db);
}

// Calls body(load, i, n) for every 16 elements from i on, n of them at the end: load(p) gives those
// of a row, 0 behind its end.
template <class Body>
inline void for_lanes(std::int64_t count, const Body& body) {
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
        body([i](const float* p) { return load(p + i); }, i, kLanes);
    if (i == count) return;
    body([i, count](const float* p) { return load_part(p + i, count - i, 0.0f); }, i, count - i);
}

inline void store_some(float* p, std::int64_t n, Floats v) {
    n == kLanes ? store(p, v) : store_part(p, n, v);
}

// 1 / rms of a row of x, or of x + y, which goes to `sum_out` then.
float inverse_rms_of_row(const float* x, const float* y, std::int64_t count, float eps,
                         float* sum_out) {
    Floats squares = {};
    for_lanes(count, [&](const auto& at, std::int64_t i, std::int64_t n) {
        Floats v = at(x);
        if (y != nullptr) {
            v += at(y);
            store_some(sum_out + i, n, v);
        }
        squares += v * v;
    });
    return 1.0f / std::sqrt(sum(squares) / static_cast<float>(count) + eps);
}

// A part of a row, from 1 / rms of all of it.
void rms_norm_span(const float* x, float r, const float* weight, std::int64_t count, float* out) {
    for_lanes(count, [&](const auto& at, std::int64_t i, std::int64_t n) {
        store_some(out + i, n, at(x) * r * at(weight));
    });
}

// With n = x r (r = 1 / rms) and h = g * weight: dx = r (h - n mean(h n)), to which the gradient of
// what x is besides is added; dweight += g n.
void rms_norm_backward_row(const float* x, const float* weight, float r, const float* g,
                           const float* g_sum, std::int64_t count, float* dx, float* dweight) {
    Floats products = {};
    for_lanes(count, [&](const auto& at, std::int64_t i, std::int64_t n) {
        const Floats normed = at(x) * r;
        products += at(g) * at(weight) * normed;
        store_some(dweight + i, n, at(dweight) + at(g) * normed);
    });
    const float mean = sum(products) / static_cast<float>(count);
    for_lanes(count, [&](const auto& at, std::int64_t i, std::int64_t n) {
        const Floats d = r * (at(g) * at(weight) - at(x) * r * mean);
        store_some(dx + i, n, g_sum != nullptr ? at(g_sum) + d : d);
    });
}

constexpr ElementwiseOps kElementwiseOps = {softmax_row,
                                            softmax_span,
                                            swiglu_span,
                                            swiglu_backward_span<float>,
                                            swiglu_backward_span<std::uint16_t>,
                                            inverse_rms_of_row,
                                            rms_norm_span,
                                            rms_norm_backward_row};

}  // namespace
}  // namespace subbyte::kernels
