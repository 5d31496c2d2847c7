// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/element_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "subbyte/formats/float_bits.h"

namespace subbyte::formats {
namespace {

// 2^(i / steps) for i in [0, steps).
template <std::size_t kCodes>
std::array<float, kCodes> powers(const std::vector<double>& octave) {
    const int steps = static_cast<int>(octave.size());
    std::array<float, kCodes> values{};
    for (int code = 1; code < static_cast<int>(kCodes); ++code) {
        const int exponent = code - static_cast<int>(kCodes) + 1;  // of the base; <= 0
        const int octaves = (exponent - steps + 1) / steps;        // rounded down
        const auto fraction = octave[static_cast<std::size_t>(exponent - octaves * steps)];
        values[static_cast<std::size_t>(code)] =
            static_cast<float>(fraction) * power_of_two(octaves);
    }
    return values;
}

// Point k of n from 0.1 to 1 as torch.linspace computes it: from the nearer end, one fused
// multiply-add each.
float linspace(int k, int n) {
    const float start = 0.1f, end = 1.0f;
    const float step = (end - start) / static_cast<float>(n - 1);
    return k < n / 2 ? std::fma(step, static_cast<float>(k), start)
                     : std::fma(-step, static_cast<float>(n - 1 - k), end);
}

// A leading run of zeros in the code is an exponent of ten, the rest a linear fraction: per decade
// the midpoints of ever more intervals of [0.1, 1].
std::vector<float> dynamic_map(bool is_signed, int exponent_bits, int bits) {
    std::vector<float> values{0.0f, 1.0f};
    for (int i = 0; i < exponent_bits; ++i) {
        const int points = (1 << (i + bits - 1 - exponent_bits + (is_signed ? 0 : 1))) + 1;
        const auto decade = static_cast<float>(std::pow(10.0, i - exponent_bits + 1));
        for (int k = 0; k + 1 < points; ++k) {
            const float mean = (linspace(k, points) + linspace(k + 1, points)) / 2.0f;
            values.push_back(decade * mean);
            if (is_signed) values.push_back(-(decade * mean));
        }
    }
    std::sort(values.begin(), values.end());
    return values;
}

}  // namespace

std::span<const float> lns8_magnitudes() {
    static const auto values = powers<128>(
        {1.0, 1.0905077326652577, 1.1892071150027210, 1.2968395546510096, 1.4142135623730951,
         1.5422108254079407, 1.6817928305074290, 1.8340080864093424});
    return values;
}

std::span<const float> lns4_magnitudes() {
    static const auto values = powers<8>({1.0});
    return values;
}

std::span<const float> nf4_values() {
    static constexpr std::array<float, 16> kValues{
        -1.0f,
        -0.6961928009986877f,
        -0.5250730514526367f,
        -0.39491748809814453f,
        -0.28444138169288635f,
        -0.18477343022823334f,
        -0.09105003625154495f,
        0.0f,
        0.07958029955625534f,
        0.16093020141124725f,
        0.24611230194568634f,
        0.33791524171829224f,
        0.44070982933044434f,
        0.5626170039176941f,
        0.7229568362236023f,
        1.0f,
    };
    return kValues;
}

std::span<const float> dynamic8_values() {
    static const std::vector<float> values = dynamic_map(true, 7, 8);
    return values;
}

std::span<const float> udynamic8_values() {
    static const std::vector<float> values = dynamic_map(false, 7, 8);
    return values;
}

std::span<const float> dynamic4_values() {
    static const std::vector<float> values = dynamic_map(true, 3, 4);
    return values;
}

std::span<const float> ulinear4_values() {
    static const std::vector<float> values = [] {
        std::vector<float> sixteenths;
        for (int i = 1; i <= 16; ++i) sixteenths.push_back(static_cast<float>(i) / 16.0f);
        return sixteenths;
    }();
    return values;
}

}  // namespace subbyte::formats
