// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Sixteen floats at a time in the compiler's portable vectors: one source for every instruction
// set, and one order of operations, hence the same bits. Included by one file per instruction set.
#pragma once

#include <cstdint>
#include <cstring>

namespace subbyte::kernels {
namespace {

constexpr std::int64_t kLanes = 16;
using Floats __attribute__((vector_size(64))) = float;
using Words __attribute__((vector_size(64))) = std::uint32_t;
using Halves __attribute__((vector_size(32))) = std::uint16_t;

inline Floats all(float x) { return Floats{} + x; }

inline Floats load(const float* p) {
    Floats v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline Floats load(const std::uint16_t* p) {
    Halves h;
    std::memcpy(&h, p, sizeof h);
    return (Floats)(__builtin_convertvector(h, Words) << 16);
}

inline void store(float* p, Floats v) { std::memcpy(p, &v, sizeof v); }

// Nearest even; NaN stays NaN.
inline void store(std::uint16_t* p, Floats v) {
    const Words bits = (Words)v;
    const Words rounded = bits + (0x7FFF + ((bits >> 16) & 1));
    const Words kept = (bits & 0x7FFFFFFF) > 0x7F800000 ? bits | 0x400000 : rounded;
    const Halves h = __builtin_convertvector(kept >> 16, Halves);
    std::memcpy(p, &h, sizeof h);
}

// The first `count` < 16 values; the other lanes hold `rest`.
template <typename T>
Floats load_part(const T* p, std::int64_t count, T rest) {
    T buffer[kLanes];
    for (std::int64_t i = 0; i < kLanes; ++i) buffer[i] = i < count ? p[i] : rest;
    return load(buffer);
}

template <typename T>
void store_part(T* p, std::int64_t count, Floats v) {
    T buffer[kLanes];
    store(buffer, v);
    std::memcpy(p, buffer, static_cast<std::size_t>(count) * sizeof(T));
}

// Pairwise, in a fixed order.
inline float sum(Floats v) {
    float lane[kLanes];
    store(lane, v);
    for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
        for (std::int64_t i = 0; i < width; ++i) lane[i] += lane[i + width];
    }
    return lane[0];
}

inline float largest(Floats v) {
    float lane[kLanes];
    store(lane, v);
    float most = lane[0];
    for (float x : lane) most = x > most ? x : most;
    return most;
}

// exp(x) = 2^n exp(r), n = rint(x / ln 2), |r| <= ln 2 / 2, exp(r) by its Taylor polynomial of
// degree 7 (relative error 5e-9 there). Below -87 the result is 0, above 88.3 infinity.
inline Floats exp(Floats x) {
    constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
    const Floats shifted = x * 1.44269504088896341f + kMagic;
    const Floats n = shifted - kMagic;
    // ln 2 in two parts; the first has so few digits that n times it is exact.
    const Floats r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    Floats p = r * (1.0f / 5040) + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1.0f;
    const Words scale = (((Words)shifted & 0x1FF) + 127) << 23;
    Floats y = p * (Floats)scale;
    y = x < -87.0f ? all(0.0f) : y;
    return x > 88.3f ? all(__builtin_inff()) : y;
}

}  // namespace
}  // namespace subbyte::kernels
