// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The Hadamard transform of formats/hadamard.h.
// Written once in the vocabulary of simd/*-inl.h, which must be included before; internal linkage,
// so that each instruction set gets its own copy.
#pragma once

#include <cstdint>

#include "subbyte/formats/hadamard.h"
#include "subbyte/kernels/quantize/row_ops.h"

namespace subbyte::kernels {
namespace {

// a + b and a - b; a fused a - b * 1 is the difference.
inline void butterfly(F& a, F& b) {
    const F sum = add(a, b);
    b = neg_mul_add(b, set(1.0f), a);
    a = sum;
}

// Butterflies of all distances below kLanes, within each of kLanes vectors: turned over, they are
// butterflies between vectors.
inline void rotate_within_vectors(F* v) {
    I block[kLanes];
    for (int i = 0; i < kLanes; ++i) block[i] = bits(v[i]);
    transpose_square(block);
    for (int i = 0; i < kLanes; ++i) v[i] = floats(block[i]);
    for (int distance = 1; distance < kLanes; distance *= 2) {
        for (int start = 0; start < kLanes; start += 2 * distance) {
            for (int i = start; i < start + distance; ++i) butterfly(v[i], v[i + distance]);
        }
    }
    for (int i = 0; i < kLanes; ++i) block[i] = bits(v[i]);
    transpose_square(block);
    for (int i = 0; i < kLanes; ++i) v[i] = floats(block[i]);
}

void rotate_columns(float* x, std::int64_t cols, const RowRotation& rotation, bool back) {
    constexpr int kBlock = kLanes * kLanes > 128 ? kLanes * kLanes : 128;
    constexpr int kVectors = kBlock / kLanes;
    const F factor = set(formats::hadamard_factor(rotation.size));
    const auto flip = [&](F value, int vector) {
        const int position = vector * kLanes % rotation.size;
        return floats(xor_(bits(value), load_int(rotation.flips + position)));
    };
    std::int64_t c = 0;
    for (; c + kBlock <= cols; c += kBlock) {
        F v[kVectors];
        for (int i = 0; i < kVectors; ++i) {
            v[i] = load(x + c + i * kLanes);
            if (!back) v[i] = flip(v[i], i);
        }
        for (int i = 0; i < kVectors; i += kLanes) rotate_within_vectors(v + i);
        for (int distance = 1; distance * kLanes < rotation.size; distance *= 2) {
            for (int start = 0; start < kVectors; start += 2 * distance) {
                for (int i = start; i < start + distance; ++i) butterfly(v[i], v[i + distance]);
            }
        }
        for (int i = 0; i < kVectors; ++i) {
            v[i] = mul(v[i], factor);
            store(x + c + i * kLanes, back ? flip(v[i], i) : v[i]);
        }
    }
    if (c == cols) return;
    if (back) {
        formats::rotate_row_back(x + c, cols - c, rotation.size, rotation.signs);
    } else {
        formats::rotate_row(x + c, cols - c, rotation.size, rotation.signs);
    }
}

}  // namespace
}  // namespace subbyte::kernels
