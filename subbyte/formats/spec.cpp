// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/spec.h"

#include <fmt/format.h>

#include <array>

#include "subbyte/formats/quantize_reference.h"
#include "subbyte/formats/spec_options.h"

namespace subbyte::formats {
namespace {

// The mx names follow the OCP standard, whose rule is floor.
constexpr std::array kNamed{
    NamedSpec{"fp8", "e4m3:1x128:f32"},
    NamedSpec{"fp4", "e2m1:1x128:f32"},
    NamedSpec{"mxfp8", "e4m3:1x32:e8m0/floor"},
    NamedSpec{"mxfp6e2m3", "e2m3:1x32:e8m0/floor"},
    NamedSpec{"mxfp6e3m2", "e3m2:1x32:e8m0/floor"},
    NamedSpec{"mxfp4", "e2m1:1x32:e8m0/floor"},
    NamedSpec{"mxint8", "mxint8:1x32:e8m0/floor"},
    NamedSpec{"nvfp4", "e2m1:1x16:ue4m3+f32"},
    NamedSpec{"nvint4", "int4:1x16:ue4m3+f32"},
};

std::string tile_text(const Tile& tile) {
    switch (tile.kind) {
        case Tile::Kind::kTensor: return "tensor";
        case Tile::Kind::kRow: return "row";
        case Tile::Kind::kBlock: break;
    }
    return fmt::format("{}x{}", tile.rows, tile.cols);
}

}  // namespace

bool QuantSpec::is_basic() const {
    return level_tile == Tile::tensor() && rotation.size == 0 && order == ScaleOrder::kStandard &&
           four_over_six == FourOverSix::kOff && !guard && !ms_eden;
}

std::span<const NamedSpec> named_specs() { return kNamed; }

std::string to_string(const QuantSpec& spec) {
    if (spec.is_fp32()) return "fp32";
    std::string text(spec.element->name);
    if (spec.is_scaled()) {
        text += fmt::format(":{}:{}", tile_text(spec.tile), scale_name(spec.scale));
        ScaleRule rule = spec.rule;
        if (rule == ScaleRule::kDefault && spec.scale == ScaleFormat::kE8m0) {
            rule = ScaleRule::kFloor;
        }
        if (rule != ScaleRule::kDefault) text += fmt::format("/{}", scale_rule_name(rule));
        if (spec.second_level) text += "+f32";
        if (spec.level_tile != Tile::tensor())
            text += fmt::format("@{}", tile_text(spec.level_tile));
    }
    return text + option_text(spec);
}

std::int64_t level_count(const QuantSpec& spec, std::int64_t rows, std::int64_t cols) {
    if (!spec.second_level) return 0;
    if (spec.level_tile == Tile::tensor()) return 1;
    return TileGrid(spec.level_tile, rows, cols).count();
}

double bits_per_value(const QuantSpec& spec, std::int64_t rows, std::int64_t cols) {
    if (rows <= 0 || cols <= 0) return 0.0;
    const double values = static_cast<double>(rows) * static_cast<double>(cols);
    double bits = static_cast<double>(rows) * static_cast<double>(row_bytes(spec, cols)) * 8;
    if (spec.is_scaled()) {
        const double scale_bits = spec.scale == ScaleFormat::kFp32 ? 32 : 8;
        bits += static_cast<double>(TileGrid(spec.tile, rows, cols).count()) * scale_bits;
    }
    bits += 32.0 * static_cast<double>(level_count(spec, rows, cols));
    return bits / values;
}

}  // namespace subbyte::formats
