// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/quantize_reference.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "subbyte/core/float_mode.h"
#include "subbyte/formats/code_stream.h"
#include "subbyte/formats/float_bits.h"

namespace subbyte::formats {
namespace {

constexpr float kLargestFloat = std::numeric_limits<float>::max();
constexpr float kUe4m3Max = 448.0f;

// Largest magnitude of each tile, as float bits: NaN and Inf come out above every finite number.
std::vector<std::uint32_t> tile_amax_bits(const MatrixView& source, const TileGrid& grid) {
    std::vector<std::uint32_t> amax(static_cast<std::size_t>(grid.count()), 0);
    for (std::int64_t r = 0; r < source.rows; ++r) {
        for (std::int64_t c = 0; c < source.cols; ++c) {
            std::uint32_t& tile = amax[static_cast<std::size_t>(grid.index(r, c))];
            tile = std::max(tile, to_bits(source.at(r, c)) & kMagnitudeMask);
        }
    }
    return amax;
}

float scaled(const QuantSpec& spec, const TileScale& tile, float x) {
    if (spec.scale != ScaleFormat::kUe4m3) return x / tile.factor;
    const float max = spec.element->max;
    return std::clamp(x * tile.factor, -max, max);
}

}  // namespace

std::int64_t row_bytes(const QuantSpec& spec, std::int64_t cols) {
    return spec.is_fp32() ? cols * 4 : (cols * spec.element->bits + 7) / 8;
}

SecondLevel second_level_scale(const ElementFormat& element, float amax) {
    if (amax == 0.0f) return {};
    SecondLevel level;
    level.encode = std::min((kUe4m3Max * element.max) / amax, kLargestFloat);
    level.decode = 1.0f / level.encode;
    return level;
}

TileScale tile_scale(const QuantSpec& spec, std::uint32_t amax_bits, const SecondLevel& level) {
    TileScale tile;
    if (amax_bits >= kInfinityBits) {
        tile.finite = false;
        tile.scale = from_bits(kQuietNanBits);
        tile.code = spec.scale == ScaleFormat::kFp32 ? 0 : encode_scale(spec.scale, tile.scale);
        return tile;
    }
    const float amax = from_bits(amax_bits);
    switch (spec.scale) {
        case ScaleFormat::kNone: break;
        case ScaleFormat::kFp32: tile.factor = tile.scale = fp32_scale(*spec.element, amax); break;
        case ScaleFormat::kE8m0: {
            const int exponent =
                amax_bits == 0 ? -127 : e8m0_exponent(*spec.element, spec.rule, amax);
            tile.factor = tile.scale = power_of_two(exponent);
            tile.code = static_cast<std::uint8_t>(exponent + 127);
            break;
        }
        case ScaleFormat::kUe4m3: {
            const float wanted = (amax / spec.element->max) * level.encode;
            tile.code = encode_scale(ScaleFormat::kUe4m3, std::min(wanted, kUe4m3Max));
            tile.scale = decode_scale(ScaleFormat::kUe4m3, tile.code);
            tile.factor = std::min(1.0f / (tile.scale * level.decode), kLargestFloat);
            break;
        }
    }
    return tile;
}

void quantize_reference(const MatrixView& source, const QuantSpec& spec, const NoiseAddress& noise,
                        const PackedView& packed) {
    const IeeeFloatScope exact;
    if (packed.global_scale != nullptr) *packed.global_scale = 1.0f;
    const std::int64_t stride = row_bytes(spec, source.cols);
    if (spec.is_fp32()) {
        for (std::int64_t r = 0; r < source.rows; ++r) {
            for (std::int64_t c = 0; c < source.cols; ++c) {
                const float x = source.at(r, c);
                std::memcpy(packed.codes + r * stride + 4 * c, &x, 4);
            }
        }
        return;
    }

    const TileGrid grid(spec.tile, source.rows, source.cols);
    std::vector<TileScale> tiles;
    if (spec.is_scaled()) {
        const std::vector<std::uint32_t> amax = tile_amax_bits(source, grid);
        SecondLevel level;
        if (spec.second_level) {
            std::uint32_t tensor_amax = 0;
            for (std::uint32_t bits : amax) {
                if (bits < kInfinityBits) tensor_amax = std::max(tensor_amax, bits);
            }
            level = second_level_scale(*spec.element, from_bits(tensor_amax));
            if (packed.global_scale != nullptr) *packed.global_scale = level.decode;
        }
        for (std::size_t i = 0; i < amax.size(); ++i) {
            tiles.push_back(tile_scale(spec, amax[i], level));
            if (spec.scale == ScaleFormat::kFp32) {
                packed.scales_f32[i] = tiles.back().scale;
            } else {
                packed.scale_codes[i] = tiles.back().code;
            }
        }
    }

    for (std::int64_t r = 0; r < source.rows; ++r) {
        std::uint8_t* const row = packed.codes + r * stride;
        std::fill(row, row + stride, std::uint8_t{0});
        for (std::int64_t c = 0; c < source.cols; ++c) {
            float y = source.at(r, c);
            if (spec.is_scaled()) {
                const TileScale& tile = tiles[static_cast<std::size_t>(grid.index(r, c))];
                if (!tile.finite) continue;
                y = scaled(spec, tile, y);
            }
            const auto element = static_cast<std::uint64_t>(r * source.cols + c);
            const std::uint16_t bits = spec.stochastic() ? noise_bits16(noise, element) : 0;
            store_code(row, spec.element->bits, c, encode(*spec.element, y, spec.rounding, bits));
        }
    }
}

void dequantize_reference(const PackedView& packed, const QuantSpec& spec, std::int64_t rows,
                          std::int64_t cols, float* out) {
    const IeeeFloatScope exact;
    const std::int64_t stride = row_bytes(spec, cols);
    const TileGrid grid(spec.tile, rows, cols);
    const float global =
        spec.second_level && packed.global_scale != nullptr ? *packed.global_scale : 1.0f;
    for (std::int64_t r = 0; r < rows; ++r) {
        const std::uint8_t* const row = packed.codes + r * stride;
        for (std::int64_t c = 0; c < cols; ++c) {
            float& value = out[r * cols + c];
            if (spec.is_fp32()) {
                std::memcpy(&value, row + 4 * c, 4);
                continue;
            }
            value = decode(*spec.element, load_code(row, spec.element->bits, c));
            if (!spec.is_scaled()) continue;
            const std::int64_t tile = grid.index(r, c);
            value *= spec.scale == ScaleFormat::kFp32
                         ? packed.scales_f32[tile]
                         : decode_scale(spec.scale, packed.scale_codes[tile]);
            if (spec.second_level) value *= global;
        }
    }
}

}  // namespace subbyte::formats
