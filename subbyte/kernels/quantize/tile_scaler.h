// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "subbyte/formats/tile_scale.h"
#include "subbyte/kernels/quantize/row_ops.h"

namespace subbyte::kernels {

// From the amax of tiles to their factors, for one matrix: with the vector loop where RowOps has
// one for the rule, tile by tile with formats::tile_scale() where not.
class TileScaler {
public:
    TileScaler(const RowOps& ops, const formats::QuantSpec& spec, const formats::TileGrid& grid,
               std::int64_t rows, std::int64_t cols);

    // The second levels, from the amax bits of all tiles; stores them at `global_scale`.
    void find_levels(std::span<const std::uint32_t> amax, float* global_scale);

    // Factors of the tiles [row, row + down) x [col, col + across) of the grid, row-major, as are
    // their amax. `raise` multiplies the wish that becomes a scale (4over6).
    void scale(const std::uint32_t* amax, std::int64_t row, std::int64_t col, std::int64_t down,
               std::int64_t across, float raise, const TileFactors& tiles) const;

    // The one second level of the matrix, or 1; not for levels by patch.
    float decode_level() const { return problem_.level.decode; }

private:
    const RowOps& ops_;
    const formats::QuantSpec& spec_;
    const formats::TileGrid grid_, level_grid_;
    ScaleProblem problem_{};
    std::vector<formats::SecondLevel> levels_;  // by patch
    bool one_by_one_ = false;
};

}  // namespace subbyte::kernels
