// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/hadamard.h"

#include <algorithm>

namespace subbyte::formats {
namespace {

constexpr std::uint64_t kSignBlock = (std::uint64_t{1} << 48) - 1;  // no element's noise is there
constexpr std::uint16_t kSlotBits = 0xE;

void flip(float* x, int size, const SignBits& signs, int first) {
    for (int i = 0; i < size; ++i) {
        if (is_negative(signs, first + i)) x[i] = -x[i];
    }
}

// x H_size / sqrt(size)
void transform(float* x, int size) {
    for (int distance = 1; distance < size; distance *= 2) {
        for (int start = 0; start < size; start += 2 * distance) {
            for (int i = start; i < start + distance; ++i) {
                const float a = x[i], b = x[i + distance];
                x[i] = a + b;
                x[i + distance] = a - b;
            }
        }
    }
    const float factor = hadamard_factor(size);
    for (int i = 0; i < size; ++i) x[i] *= factor;
}

// Calls body(start, size, position in the group) for every power of two that is transformed.
template <class Body>
void for_groups(std::int64_t cols, int size, Body body) {
    for (std::int64_t group = 0; group < cols; group += size) {
        const int length = static_cast<int>(std::min<std::int64_t>(size, cols - group));
        int done = 0;
        for (int part = size; part > 0; part /= 2) {
            if (length - done < part) continue;
            body(group + done, part, done);
            done += part;
        }
    }
}

}  // namespace

SignBits fixed_signs() { return noise_block(NoiseAddress{}, kSignBlock); }

SignBits fresh_signs(const NoiseAddress& address) {
    NoiseAddress slot = address;
    slot.role = static_cast<std::uint16_t>(address.role & kSlotBits);
    return noise_block(slot, kSignBlock);
}

void rotate_row(float* x, std::int64_t cols, int size, const SignBits& signs) {
    for_groups(cols, size, [&](std::int64_t start, int part, int position) {
        flip(x + start, part, signs, position);
        transform(x + start, part);
    });
}

void rotate_row_back(float* x, std::int64_t cols, int size, const SignBits& signs) {
    for_groups(cols, size, [&](std::int64_t start, int part, int position) {
        transform(x + start, part);
        flip(x + start, part, signs, position);
    });
}

}  // namespace subbyte::formats
