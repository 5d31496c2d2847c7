// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "subbyte/core/philox.h"
#include "subbyte/formats/hadamard.h"
#include "subbyte/formats/quantize_reference.h"

namespace subbyte::kernels {

// Numbers in (-1, 1).
inline std::vector<float> values(std::int64_t count, std::uint64_t seed) {
    std::vector<float> x(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>(static_cast<std::int32_t>(noise_block({seed, 0, 0, 0}, i)[0])) *
               0x1p-31f;
    }
    return x;
}

// A packed operand and what it means.
struct Operand {
    std::vector<std::uint8_t> codes, scale_codes;
    std::vector<float> scales, decoded;
    std::vector<float> levels;
    formats::SignBits signs{};
    formats::PackedView view() {
        return {codes.data(), scales.data(), scale_codes.data(), levels.data(), signs.data()};
    }
};

inline Operand pack(const std::vector<float>& x, std::int64_t rows, std::int64_t cols,
                    const formats::QuantSpec& spec) {
    Operand operand;
    operand.codes.resize(static_cast<std::size_t>(rows * formats::row_bytes(spec, cols)));
    const auto tiles = static_cast<std::size_t>(formats::TileGrid(spec.tile, rows, cols).count());
    operand.scales.resize(tiles);
    operand.scale_codes.resize(tiles);
    operand.levels.assign(
        static_cast<std::size_t>(std::max<std::int64_t>(1, level_count(spec, rows, cols))), 1.0f);
    operand.decoded.resize(x.size());
    formats::quantize_reference({x.data(), rows, cols, cols, 1}, spec, {}, operand.view());
    formats::dequantize_reference(operand.view(), spec, rows, cols, operand.decoded.data());
    return operand;
}

struct Shape {
    std::int64_t m, n, k;
};

}  // namespace subbyte::kernels
