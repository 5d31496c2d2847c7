// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/quantize_reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "subbyte/core/float_mode.h"
#include "subbyte/formats/code_stream.h"
#include "subbyte/formats/float_bits.h"
#include "subbyte/formats/hadamard.h"
#include "subbyte/formats/tile_scale.h"

namespace subbyte::formats {
namespace {

// The rotated source, contiguous.
std::vector<float> rotated(const MatrixView& source, const Rotation& rotation,
                           const SignBits& signs) {
    std::vector<float> values;
    values.reserve(static_cast<std::size_t>(source.rows * source.cols));
    for (std::int64_t r = 0; r < source.rows; ++r) {
        for (std::int64_t c = 0; c < source.cols; ++c) values.push_back(source.at(r, c));
        rotate_row(values.data() + r * source.cols, source.cols, rotation.size, signs);
    }
    return values;
}

// One call of quantize_reference for a scaled or bf16 spec.
class Quantizer {
public:
    Quantizer(const MatrixView& source, const QuantSpec& spec, const NoiseAddress& noise,
              const PackedView& packed)
        : source_(source),
          spec_(spec),
          noise_(noise),
          packed_(packed),
          grid_(spec.tile, source.rows, source.cols),
          level_grid_(spec.level_tile, source.rows, source.cols) {}

    void run() {
        if (spec_.is_scaled()) scale();
        encode_elements();
        if (spec_.ms_eden) correct_scales();
    }

private:
    std::size_t tile_at(std::int64_t r, std::int64_t c) const {
        return static_cast<std::size_t>(grid_.index(r, c));
    }
    SecondLevel level_at(std::int64_t r, std::int64_t c) const {
        return levels_.empty() ? SecondLevel{}
                               : levels_[static_cast<std::size_t>(level_grid_.index(r, c))];
    }

    void scale() {
        const std::vector<std::uint32_t> amax = tile_amax();
        if (spec_.second_level) find_levels(amax);
        for (std::int64_t r = 0; r < source_.rows; r += grid_.tile_rows) {
            for (std::int64_t c = 0; c < source_.cols; c += grid_.tile_cols) {
                const std::size_t i = tile_at(r, c);
                const SecondLevel level = level_at(r, c);
                TileScale tile = tile_scale(spec_, amax[i], level);
                if (spec_.four_over_six != FourOverSix::kOff && tile.finite) {
                    const TileScale raised = tile_scale(spec_, amax[i], level, 1.5f);
                    if (error_with(raised, r, c) < error_with(tile, r, c)) tile = raised;
                }
                tiles_.push_back(tile);
                if (spec_.scale == ScaleFormat::kFp32) {
                    packed_.scales_f32[i] = tile.scale;
                } else {
                    packed_.scale_codes[i] = tile.code;
                }
            }
        }
    }

    // Largest magnitude of each tile, as float bits: NaN and Inf come out above every finite
    // number.
    std::vector<std::uint32_t> tile_amax() const {
        std::vector<std::uint32_t> amax(static_cast<std::size_t>(grid_.count()), 0);
        for (std::int64_t r = 0; r < source_.rows; ++r) {
            for (std::int64_t c = 0; c < source_.cols; ++c) {
                std::uint32_t& tile = amax[tile_at(r, c)];
                tile = std::max(tile, to_bits(source_.at(r, c)) & kMagnitudeMask);
            }
        }
        return amax;
    }

    void find_levels(const std::vector<std::uint32_t>& tile_amax) {
        std::vector<std::uint32_t> amax(static_cast<std::size_t>(level_grid_.count()), 0);
        for (std::int64_t r = 0; r < source_.rows; r += grid_.tile_rows) {
            for (std::int64_t c = 0; c < source_.cols; c += grid_.tile_cols) {
                const std::uint32_t bits = tile_amax[tile_at(r, c)];
                std::uint32_t& level = amax[static_cast<std::size_t>(level_grid_.index(r, c))];
                if (bits < kInfinityBits) level = std::max(level, bits);
            }
        }
        for (std::size_t i = 0; i < amax.size(); ++i) {
            levels_.push_back(second_level(spec_, from_bits(amax[i])));
            packed_.global_scale[i] = levels_.back().decode;
        }
    }

    // Error of the tile at (row, col) if it had this scale, its elements rounded to nearest.
    double error_with(const TileScale& tile, std::int64_t row, std::int64_t col) const {
        const std::int64_t row_end = std::min(source_.rows, row + grid_.tile_rows);
        const std::int64_t col_end = std::min(source_.cols, col + grid_.tile_cols);
        const float decode_level = level_at(row, col).decode;
        double sum = 0.0;
        for (std::int64_t r = row; r < row_end; ++r) {
            for (std::int64_t c = col; c < col_end; ++c) {
                const float x = source_.at(r, c);
                const std::uint32_t code =
                    encode(*spec_.element, scaled(spec_, tile, x), Rounding::kNearestEven);
                const float value =
                    unscaled(spec_, decode(*spec_.element, code), tile.scale, decode_level);
                const double error = double{x} - double{value};
                sum += spec_.four_over_six == FourOverSix::kMse ? error * error : std::abs(error);
            }
        }
        return sum;
    }

    void encode_elements() {
        const std::int64_t stride = row_bytes(spec_, source_.cols);
        for (std::int64_t r = 0; r < source_.rows; ++r) {
            std::uint8_t* const row = packed_.codes + r * stride;
            std::fill(row, row + stride, std::uint8_t{0});
            for (std::int64_t c = 0; c < source_.cols; ++c) {
                const float x = source_.at(r, c);
                const std::uint16_t bits = spec_.stochastic() ? noise_at(r, c) : 0;
                if (!spec_.is_scaled()) {
                    store_code(row, spec_.element->bits, c,
                               encode(*spec_.element, x, spec_.rounding, bits));
                } else if (const TileScale& tile = tiles_[tile_at(r, c)]; tile.finite) {
                    store_code(row, spec_.element->bits, c, encode_scaled(spec_, tile, x, bits));
                }
            }
        }
    }

    std::uint16_t noise_at(std::int64_t r, std::int64_t c) const {
        return noise_bits16(noise_, static_cast<std::uint64_t>(r * source_.cols + c));
    }

    // MS-EDEN: makes sum(x * value) equal to sum(x^2) in every rotation group, on average.
    void correct_scales() {
        for (std::int64_t r = 0; r < source_.rows; ++r) {
            for (std::int64_t c = 0; c < source_.cols; c += spec_.rotation.size) {
                const std::int64_t end = std::min(source_.cols, c + spec_.rotation.size);
                const auto correction = static_cast<float>(correction_of(r, c, end));
                for (std::int64_t i = c; i < end; i += grid_.tile_cols) {
                    const TileScale& tile = tiles_[tile_at(r, i)];
                    if (!tile.finite) continue;
                    packed_.scale_codes[tile_at(r, i)] =
                        encode_scale(spec_.scale, tile.scale * correction, Rounding::kStochastic,
                                     noise_at(r, i));
                }
            }
        }
    }

    double correction_of(std::int64_t r, std::int64_t begin, std::int64_t end) const {
        const std::uint8_t* const row = packed_.codes + r * row_bytes(spec_, source_.cols);
        double squares = 0.0, products = 0.0;
        for (std::int64_t c = begin; c < end; ++c) {
            const TileScale& tile = tiles_[tile_at(r, c)];
            if (!tile.finite) continue;
            const float q = decode(*spec_.element, load_code(row, spec_.element->bits, c));
            const double x = source_.at(r, c);
            squares += x * x;
            products += x * double{unscaled(spec_, q, tile.scale, level_at(r, c).decode)};
        }
        return products > 0.0 ? squares / products : 1.0;
    }

    const MatrixView& source_;
    const QuantSpec& spec_;
    const NoiseAddress& noise_;
    const PackedView& packed_;
    const TileGrid grid_, level_grid_;
    std::vector<SecondLevel> levels_;
    std::vector<TileScale> tiles_;
};

}  // namespace

std::int64_t row_bytes(const QuantSpec& spec, std::int64_t cols) {
    return spec.is_fp32() ? cols * 4 : (cols * spec.element->bits + 7) / 8;
}

void quantize_reference(const MatrixView& source, const QuantSpec& spec, const NoiseAddress& noise,
                        const PackedView& packed) {
    const IeeeFloatScope exact;
    if (packed.global_scale != nullptr && spec.level_tile == Tile::tensor()) {
        *packed.global_scale = 1.0f;
    }
    if (spec.is_fp32()) {
        const std::int64_t stride = row_bytes(spec, source.cols);
        for (std::int64_t r = 0; r < source.rows; ++r) {
            for (std::int64_t c = 0; c < source.cols; ++c) {
                const float x = source.at(r, c);
                std::memcpy(packed.codes + r * stride + 4 * c, &x, 4);
            }
        }
        return;
    }
    SignBits signs = fixed_signs();
    if (spec.rotation.fresh) {
        signs = fresh_signs(noise);
        std::copy(signs.begin(), signs.end(), packed.signs);
    }
    if (source.rows == 0 || source.cols == 0) return;
    if (spec.rotation.size == 0) return Quantizer(source, spec, noise, packed).run();
    const std::vector<float> values = rotated(source, spec.rotation, signs);
    const MatrixView view{values.data(), source.rows, source.cols, source.cols, 1};
    Quantizer(view, spec, noise, packed).run();
}

void dequantize_reference(const PackedView& packed, const QuantSpec& spec, std::int64_t rows,
                          std::int64_t cols, float* out) {
    const IeeeFloatScope exact;
    const std::int64_t stride = row_bytes(spec, cols);
    const TileGrid grid(spec.tile, rows, cols), level_grid(spec.level_tile, rows, cols);
    SignBits signs = fixed_signs();
    if (spec.rotation.fresh) std::copy_n(packed.signs, signs.size(), signs.begin());
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
            const float scale = spec.scale == ScaleFormat::kFp32
                                    ? packed.scales_f32[tile]
                                    : decode_scale(spec.scale, packed.scale_codes[tile]);
            const float level = spec.second_level && packed.global_scale != nullptr
                                    ? packed.global_scale[level_grid.index(r, c)]
                                    : 1.0f;
            value = unscaled(spec, value, scale, level);
        }
        if (spec.rotation.size != 0) {
            rotate_row_back(out + r * cols, cols, spec.rotation.size, signs);
        }
    }
}

}  // namespace subbyte::formats
