// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/quantize/tile_scaler.h"

#include <algorithm>

#include "subbyte/core/float_mode.h"
#include "subbyte/formats/float_bits.h"

namespace subbyte::kernels {
namespace {

using formats::QuantSpec;
using formats::ScaleFormat;
using formats::ScaleRule;
using formats::Tile;

ScaleProblem scale_problem(const QuantSpec& spec) {
    if (!spec.is_scaled()) return {};
    const formats::ElementFormat& element = *spec.element;
    const bool integer = element.kind == formats::ElementKind::kInteger;
    ScaleProblem problem{spec.scale,
                         spec.rule,
                         element.max,
                         element.emax(),
                         integer ? element.bits - 2 : element.mantissa_bits,
                         {}};
    problem.amax_factor = formats::amax_factor(spec);
    problem.three_quarters = spec.guard && spec.scale == ScaleFormat::kE8m0;
    problem.te_b = spec.order == formats::ScaleOrder::kTeB;
    return problem;
}

// Rules and levels that RowOps::scales() does not know.
bool is_rare(const QuantSpec& spec) {
    if (spec.level_tile != Tile::tensor()) return true;
    switch (spec.scale) {
        case ScaleFormat::kNone: return false;
        case ScaleFormat::kE8m0: return spec.second_level || spec.rule == ScaleRule::kNearest;
        case ScaleFormat::kFp32: return spec.second_level || spec.rule != ScaleRule::kDefault;
        default: return spec.rule != ScaleRule::kDefault;
    }
}

}  // namespace

TileScaler::TileScaler(const RowOps& ops, const QuantSpec& spec, const formats::TileGrid& grid,
                       std::int64_t rows, std::int64_t cols)
    : ops_(ops),
      spec_(spec),
      grid_(grid),
      level_grid_(spec.level_tile, rows, cols),
      problem_(scale_problem(spec)),
      one_by_one_(is_rare(spec)) {}

void TileScaler::find_levels(std::span<const std::uint32_t> amax, float* global_scale) {
    std::vector<std::uint32_t> largest(static_cast<std::size_t>(level_grid_.count()), 0);
    for (std::int64_t i = 0; i < grid_.count(); ++i) {
        const std::int64_t row = i / grid_.grid_cols * grid_.tile_rows;
        const std::int64_t col = i % grid_.grid_cols * grid_.tile_cols;
        const std::uint32_t bits = amax[static_cast<std::size_t>(i)];
        std::uint32_t& level = largest[static_cast<std::size_t>(level_grid_.index(row, col))];
        if (bits < formats::kInfinityBits) level = std::max(level, bits);
    }
    const IeeeFloatScope exact;
    for (const std::uint32_t bits : largest) {
        levels_.push_back(formats::second_level(spec_, formats::from_bits(bits)));
        *global_scale++ = levels_.back().decode;
    }
    problem_.level = levels_.front();
}

void TileScaler::scale(const std::uint32_t* amax, std::int64_t row, std::int64_t col,
                       std::int64_t down, std::int64_t across, float raise,
                       const TileFactors& tiles) const {
    if (!one_by_one_) {
        ScaleProblem problem = problem_;
        problem.raise = raise;
        return ops_.scales(problem, amax, down * across, tiles);
    }
    const bool multiplies = formats::is_ue(spec_.scale) || spec_.second_level;
    for (std::int64_t i = 0; i < down * across; ++i) {
        const std::int64_t r = (row + i / across) * grid_.tile_rows;
        const std::int64_t c = (col + i % across) * grid_.tile_cols;
        const formats::SecondLevel level =
            levels_.empty() ? formats::SecondLevel{}
                            : levels_[static_cast<std::size_t>(level_grid_.index(r, c))];
        const formats::TileScale tile = formats::tile_scale(spec_, amax[i], level, raise);
        tiles.scale[i] = tile.scale;
        tiles.reciprocal[i] = tile.factor;
        tiles.codes[i] = tile.code;
        tiles.scaling[i] = !tile.finite ? Scaling::kZero
                           : multiplies ? Scaling::kMultiply
                                        : Scaling::kDivide;
    }
}

}  // namespace subbyte::kernels
