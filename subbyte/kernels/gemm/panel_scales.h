// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "subbyte/formats/quantize_reference.h"

namespace subbyte::kernels {

// What becomes of the scales of one side of a GEMM.
enum class ScaleForm {
    kValue,
    kFolded,    // multiplied into the carriers; 1 is left
    kPower,     // E8M0 in the range of power_scales.h: values
    kExponent,  // the same, the bits of the float less those of 1
};

// The scales of one operand laid out as its panels are: one float per block of codes and row, the
// second level included.
class PanelScales {
public:
    // `block` codes lie in one tile. What `view` points at must outlive this object.
    PanelScales(const formats::PackedView& view, const formats::QuantSpec& spec, ScaleForm form,
                std::int64_t rows, std::int64_t k, int block);

    // Rows [first, first + rows) of a panel of `panel_rows`: out[block][row], 0 for rows behind.
    void expand(std::int64_t first, std::int64_t rows, int panel_rows, float* out) const;

private:
    float tile(std::int64_t index) const {
        return f32_ != nullptr ? f32_[index] * global_ : values_[codes_[index]];
    }

    const float* f32_ = nullptr;           // FP32 scales, or
    const std::uint8_t* codes_ = nullptr;  // codes, and
    std::array<float, 256> values_{};      // their values; neither: all scales are 1
    const float* levels_ = nullptr;        // second level in patches
    float global_ = 1.0f;                  // second level of the tensor
    formats::TileGrid grid_, level_grid_;
    std::int64_t blocks_, blocks_per_tile_;
};

}  // namespace subbyte::kernels
