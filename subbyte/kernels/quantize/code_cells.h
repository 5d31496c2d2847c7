// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "subbyte/formats/rounding.h"

namespace subbyte::kernels {

// The codes of an element format that is a table or a logarithm, looked up instead of searched for:
// magnitudes are cut into cells, an eighth bit of the leading ones each, so fine that the code
// changes at most once within a cell.
struct CodeCells {
    static constexpr float kMax = 1.0f;                        // the largest magnitude of all
    static constexpr int kShift = 16;                          // of the bits of a magnitude
    static constexpr std::uint32_t kLowest = (127 - 24) << 7;  // below 2^-24: one cell
    static constexpr std::uint32_t kHighest = 127 << 7;        // that of kMax
    static constexpr std::uint32_t kHalf = kHighest - kLowest + 1;

    struct Cell {
        std::uint32_t threshold;  // the smallest magnitude, as bits, that has the second code
        std::uint32_t codes;      // the first one, and the second << 8
    };
    Cell cell[2 * kHalf];  // of positive numbers, then of negative ones
};

// The cells of an element of these by name, made with formats::encode() at the first call. Every
// rounding but the stochastic one. Error kInternal when two codes change within a cell.
const CodeCells& code_cells(std::string_view element, formats::Rounding rounding);

// The values of its codes.
const float* decoded_codes(std::string_view element);

}  // namespace subbyte::kernels
