// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include "subbyte/core/aligned_buffer.h"
#include "subbyte/core/float_mode.h"
#include "subbyte/core/parallel.h"
#include "subbyte/kernels/quantize/six_bits.h"
#include "subbyte/kernels/quantize/tiled.h"

namespace subbyte::kernels {
namespace {

using formats::PackedView;
using formats::QuantSpec;
using formats::ScaleFormat;
using formats::TileGrid;

// Values of all codes of a scale format.
const std::array<float, 256>& scale_table(ScaleFormat format) {
    const auto make = [](ScaleFormat f) {
        std::array<float, 256> table;
        for (std::size_t i = 0; i < table.size(); ++i) {
            table[i] = formats::decode_scale(f, static_cast<std::uint8_t>(i));
        }
        return table;
    };
    static const std::array<float, 256> e8m0 = make(ScaleFormat::kE8m0);
    static const std::array<float, 256> ue4m3 = make(ScaleFormat::kUe4m3);
    static const std::array<float, 256> ue5m3 = make(ScaleFormat::kUe5m3);
    static const std::array<float, 256> ue5m3h = make(ScaleFormat::kUe5m3h);
    switch (format) {
        case ScaleFormat::kUe4m3: return ue4m3;
        case ScaleFormat::kUe5m3: return ue5m3;
        case ScaleFormat::kUe5m3h: return ue5m3h;
        default: return e8m0;
    }
}

}  // namespace

void dequantize_tiled(const RowOps& ops, const PackedView& packed, const QuantSpec& spec,
                      std::int64_t rows, std::int64_t cols, float* out) {
    if (rows == 0 || cols == 0) return;
    const TileGrid grid(spec.tile, rows, cols);
    const std::int64_t stride = formats::row_bytes(spec, cols);
    const TileGrid levels(spec.level_tile, rows, cols);
    const auto level = [&](std::int64_t row, std::int64_t col) {
        return spec.second_level ? packed.global_scale[levels.index(row, col)] : 1.0f;
    };
    formats::SignBits signs = formats::fixed_signs();
    if (spec.rotation.fresh) std::copy_n(packed.signs, signs.size(), signs.begin());
    const RowRotation rotation = row_rotation(spec.rotation, signs);
    const std::int64_t grain = std::max<std::int64_t>(1, kTaskElements / cols);
    parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
        const IeeeFloatScope exact;
        thread_local AlignedBuffer<float> scale_buffer;
        thread_local AlignedBuffer<std::uint8_t> code_buffer;
        std::int64_t decoded_tile_row = -1;
        float* decoded = nullptr;  // scales of that row of tiles
        for (std::int64_t r = begin; r < end; ++r) {
            const std::uint8_t* row = packed.codes + r * stride;
            float* const target = out + r * cols;
            if (!spec.is_scaled()) {
                if (spec.is_fp32()) {
                    std::memcpy(target, row, static_cast<std::size_t>(4 * cols));
                } else {
                    ops.decode_bf16(row, cols, target);
                }
                continue;
            }
            const std::int64_t tile0 = r / grid.tile_rows * grid.grid_cols;
            if (spec.scale != ScaleFormat::kFp32 && decoded_tile_row != tile0) {
                decoded = scale_buffer.reserve(static_cast<std::size_t>(grid.grid_cols));
                const auto& table = scale_table(spec.scale);
                for (std::int64_t i = 0; i < grid.grid_cols; ++i) {
                    decoded[i] = table[packed.scale_codes[tile0 + i]];
                }
                decoded_tile_row = tile0;
            }
            const float* const scales =
                spec.scale == ScaleFormat::kFp32 ? packed.scales_f32 + tile0 : decoded;
            if (spec.element->bits == 6) {
                std::uint8_t* const codes = code_buffer.reserve(static_cast<std::size_t>(cols));
                unpack_sixes(row, cols, codes);
                row = codes;
            }
            const auto decode = ops.decode[element_index(*spec.element)];
            for (std::int64_t c = 0; c < cols; c += levels.tile_cols) {
                const RowSpan span{c, std::min(cols, c + levels.tile_cols), grid.tile_cols};
                decode(row, span, scales + c / grid.tile_cols, level(r, c), target + c);
            }
            if (spec.guard && spec.scale == ScaleFormat::kE8m0) {
                for (std::int64_t c = 0; c < cols; ++c) target[c] /= 0.75f;
            }
            if (rotation.size != 0) ops.rotate(target, cols, rotation, true);
        }
    });
}

}  // namespace subbyte::kernels
