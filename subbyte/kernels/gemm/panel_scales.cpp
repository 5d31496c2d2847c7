// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/gemm/panel_scales.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "subbyte/formats/float_bits.h"
#include "subbyte/kernels/gemm/power_scales.h"

namespace subbyte::kernels {
namespace {

using formats::ScaleFormat;
using Values = std::array<float, 256>;

const Values& code_values_of(ScaleFormat format) {
    static const std::map<ScaleFormat, Values> tables = [] {
        std::map<ScaleFormat, Values> made;
        for (ScaleFormat of :
             {ScaleFormat::kE8m0, ScaleFormat::kUe4m3, ScaleFormat::kUe5m3, ScaleFormat::kUe5m3h}) {
            for (std::size_t code = 0; code < 256; ++code) {
                made[of][code] = formats::decode_scale(of, static_cast<std::uint8_t>(code));
            }
        }
        return made;
    }();
    return tables.at(format);
}

float value_of(ScaleFormat format, ScaleForm form, std::size_t code) {
    if (form == ScaleForm::kValue) return code_values_of(format)[code];
    // Tiles of zeros may have a power out of range; any will do for them.
    const std::uint32_t bits = std::uint32_t{clamp_power(static_cast<std::uint8_t>(code))} << 23;
    return formats::from_bits(form == ScaleForm::kPower ? bits : bits - formats::to_bits(1.0f));
}

}  // namespace

PanelScales::PanelScales(const formats::PackedView& view, const formats::QuantSpec& spec,
                         ScaleForm form, std::int64_t rows, std::int64_t k, int block)
    : grid_(spec.tile, rows, k),
      level_grid_(spec.level_tile, rows, k),
      blocks_((k + block - 1) / block),
      blocks_per_tile_(grid_.grid_cols == 1 ? blocks_ : grid_.tile_cols / block) {
    if (!spec.is_scaled() || form == ScaleForm::kFolded) return;
    if (spec.second_level && view.global_scale != nullptr) {
        if (level_grid_.count() == 1) {
            global_ = *view.global_scale;
        } else {
            levels_ = view.global_scale;
        }
    }
    if (spec.scale == ScaleFormat::kFp32) {
        f32_ = view.scales_f32;
        return;
    }
    codes_ = view.scale_codes;
    for (std::size_t code = 0; code < values_.size(); ++code) {
        values_[code] = value_of(spec.scale, form, code);
        if (form == ScaleForm::kValue) values_[code] *= global_;
    }
}

void PanelScales::expand(std::int64_t first, std::int64_t rows, int panel_rows, float* out) const {
    if (rows < panel_rows) std::fill_n(out, blocks_ * panel_rows, 0.0f);
    if (f32_ == nullptr && codes_ == nullptr) {
        for (std::int64_t q = 0; q < blocks_; ++q) std::fill_n(out + q * panel_rows, rows, 1.0f);
        return;
    }
    for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t row_of_tiles = (first + i) / grid_.tile_rows * grid_.grid_cols;
        if (codes_ != nullptr && levels_ == nullptr && blocks_ == grid_.grid_cols) {
            const std::uint8_t* const codes = codes_ + row_of_tiles;
            for (std::int64_t q = 0; q < blocks_; ++q) out[q * panel_rows + i] = values_[codes[q]];
            continue;
        }
        std::int64_t q = 0;
        for (std::int64_t t = 0; t < grid_.grid_cols; ++t) {
            float value = tile(row_of_tiles + t);
            if (levels_ != nullptr) {
                value *= levels_[level_grid_.index(first + i, t * grid_.tile_cols)];
            }
            const std::int64_t end = std::min(blocks_, (t + 1) * blocks_per_tile_);
            for (; q < end; ++q) out[q * panel_rows + i] = value;
        }
    }
}

}  // namespace subbyte::kernels
