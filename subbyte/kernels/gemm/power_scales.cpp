// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/gemm/power_scales.h"

namespace subbyte::kernels {
namespace {

using formats::TileGrid;

// Whether all codes of the tile are zero, signs aside. Tiles begin at whole bytes.
bool is_zero(const formats::PackedView& view, const formats::QuantSpec& spec, const TileGrid& grid,
             std::int64_t tile, std::int64_t rows, std::int64_t k) {
    const std::int64_t stride = formats::row_bytes(spec, k);
    const std::int64_t row = tile / grid.grid_cols * grid.tile_rows;
    const std::int64_t col = tile % grid.grid_cols * grid.tile_cols;
    const std::int64_t begin = formats::row_bytes(spec, col);
    const std::int64_t end = formats::row_bytes(spec, std::min(k, col + grid.tile_cols));
    // Without the signs, where these stand in the same place of each byte.
    const int bits = spec.element->bits;
    const bool sign = spec.element->kind == formats::ElementKind::kFloat;
    const int magnitude = sign && bits == 4 ? 0x77 : sign && bits == 8 ? 0x7F : 0xFF;
    for (std::int64_t r = row; r < std::min(rows, row + grid.tile_rows); ++r) {
        const std::uint8_t* const codes = view.codes + r * stride;
        const auto nonzero = [&](std::uint8_t byte) { return (byte & magnitude) != 0; };
        if (std::any_of(codes + begin, codes + end, nonzero)) return false;
    }
    return true;
}

}  // namespace

bool powers_in_range(const formats::PackedView& view, const formats::QuantSpec& spec,
                     std::int64_t rows, std::int64_t k, bool allow_nan) {
    if (spec.scale != formats::ScaleFormat::kE8m0 || spec.second_level) return false;
    const TileGrid grid(spec.tile, rows, k);
    if (grid.grid_cols > 1 && grid.tile_cols % 32 != 0) return false;
    for (std::int64_t tile = 0; tile < grid.count(); ++tile) {
        const std::uint8_t code = view.scale_codes[tile];
        if (code == clamp_power(code) || (allow_nan && code == 0xFF)) continue;
        if (code == 0xFF || !is_zero(view, spec, grid, tile, rows, k)) return false;
    }
    return true;
}

}  // namespace subbyte::kernels
