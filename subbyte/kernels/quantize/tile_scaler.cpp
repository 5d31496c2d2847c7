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

// Rules that RowOps::scales() does not know.
bool is_rare(const QuantSpec& spec) {
    switch (spec.scale) {
        case ScaleFormat::kNone: return false;
        case ScaleFormat::kE8m0:
            // With a small element the reciprocal of the largest scale is subnormal.
            return spec.second_level || spec.rule == ScaleRule::kNearest ||
                   spec.element->emax() < 2;
        case ScaleFormat::kFp32:
            return spec.second_level || spec.rule != ScaleRule::kDefault ||
                   !spec.element->has_zero();
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
    const auto raise = [](std::uint32_t& level, std::uint32_t bits) {
        if (bits < formats::kInfinityBits) level = std::max(level, bits);
    };
    if (largest.size() == 1) {
        std::uint32_t all = 0;  // in a form that is vectorised
        for (const std::uint32_t bits : amax) {
            all = std::max(all, bits < formats::kInfinityBits ? bits : 0);
        }
        largest[0] = all;
    } else {
        for (std::int64_t i = 0; i < grid_.count(); ++i) {
            const std::int64_t row = i / grid_.grid_cols * grid_.tile_rows;
            const std::int64_t col = i % grid_.grid_cols * grid_.tile_cols;
            raise(largest[static_cast<std::size_t>(level_grid_.index(row, col))],
                  amax[static_cast<std::size_t>(i)]);
        }
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
    const auto level_of = [&](std::int64_t i) {
        const std::int64_t r = (row + i / across) * grid_.tile_rows;
        const std::int64_t c = (col + i % across) * grid_.tile_cols;
        return levels_[static_cast<std::size_t>(level_grid_.index(r, c))];
    };
    const std::int64_t count = down * across;
    if (!one_by_one_) {
        ScaleProblem problem = problem_;
        problem.raise = raise;
        if (levels_.size() <= 1) return ops_.scales(problem, amax, count, tiles);
        // Tiles side by side under one level at a time. What a call writes past its last tile
        // belongs to the next.
        const std::int64_t most = level_grid_.tile_cols / grid_.tile_cols;
        for (std::int64_t i = 0; i < count;) {
            const std::int64_t in_row = across - i % across;
            const std::int64_t in_patch = most - (col + i % across) % most;
            const std::int64_t run = std::min(in_row, in_patch);
            problem.level = level_of(i);
            ops_.scales(problem, amax + i, run, tiles.from(i));
            i += run;
        }
        return;
    }
    const bool multiplies = formats::is_ue(spec_.scale) || spec_.second_level;
    for (std::int64_t i = 0; i < count; ++i) {
        const formats::SecondLevel level = levels_.empty() ? formats::SecondLevel{} : level_of(i);
        const formats::TileScale tile = formats::tile_scale(spec_, amax[i], level, raise);
        tiles.scale[i] = tile.scale;
        tiles.reciprocal[i] = tile.factor;
        tiles.codes[i] = tile.code;
        tiles.scaling[i] = !tile.finite ? Scaling::kZero
                           : multiplies ? Scaling::kMultiply
                                        : Scaling::kDivide;
        if (tile.finite && problem_.three_quarters) {
            tiles.reciprocal[i] = 1.0f / tile.factor;  // a power of two
            tiles.scaling[i] = Scaling::kMultiplyThreeQuarters;
        }
    }
}

}  // namespace subbyte::kernels
