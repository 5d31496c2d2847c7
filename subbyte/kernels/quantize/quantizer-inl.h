// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// One packed copy of a matrix in the making: what tiled.cpp drives.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "subbyte/formats/float_bits.h"
#include "subbyte/kernels/quantize/chunking.h"
#include "subbyte/kernels/quantize/quantize.h"
#include "subbyte/kernels/quantize/six_bits.h"
#include "subbyte/kernels/quantize/tile_scaler.h"
#include "subbyte/kernels/quantize/workspace-inl.h"

namespace subbyte::kernels {
namespace {

using formats::PackedView;
using formats::QuantSpec;
using formats::ScaleFormat;
using formats::TileGrid;

constexpr std::int64_t kBatchElements = 4 * 1024;  // values wait in L1 for their scales

formats::SignBits signs_of(const QuantizeTarget& target) {
    return target.spec.rotation.fresh ? formats::fresh_signs(target.noise) : formats::fixed_signs();
}

// The part of a source that is at hand: what is at (row, col) and behind.
struct SourcePiece {
    const float* data = nullptr;
    std::int64_t row = 0, col = 0;
    std::int64_t row_stride = 0, col_stride = 1;

    const float* at(std::int64_t r, std::int64_t c) const {
        return data + (r - row) * row_stride + (c - col) * col_stride;
    }
    SourcePiece turned() const { return {data, col, row, col_stride, row_stride}; }
};

// The copy, chunk by chunk in any order and from any thread.
class Quantizer {
public:
    // Of a source that is not empty; of its chunks `most_cols` are as wide as that, about.
    Quantizer(const RowOps& ops, std::int64_t rows, std::int64_t cols, bool transposed_source,
              const QuantizeTarget& target, std::int64_t most_cols = kChunkColumns)
        : ops_(ops),
          rows_(rows),
          cols_(cols),
          spec_(target.spec),
          noise_(target.noise),
          packed_(target.packed),
          grid_(spec_.tile, rows, cols),
          chunks_(rows, cols, transposed_source, spec_, grid_, most_cols),
          stride_(formats::row_bytes(spec_, cols)),
          narrow_down_(transposed_source && grid_.tile_rows == 1 &&
                       (grid_.tile_cols == 16 || grid_.tile_cols == 32) &&
                       spec_.scale != ScaleFormat::kFp32 &&
                       spec_.level_tile == formats::Tile::tensor()),
          scaler_(ops, spec_, grid_, rows, cols),
          rotation_(row_rotation(spec_.rotation, signs_of(target))) {}

    const Chunking& chunks() const { return chunks_; }

    // The first pass, where tiles may span chunks: their amax, and in the end the second level.
    bool needs_amax() const { return spec_.is_scaled() && !chunks_.local; }
    void start_amax() { amax_.assign(static_cast<std::size_t>(grid_.count()), 0); }
    void find_amax(std::int64_t index, const SourcePiece& source) {
        const bool down = source.row_stride == 1 && source.col_stride != 1 && rotation_.size == 0;
        down ? amax_down_chunk(place_chunk(index), source) : amax_chunk(load_chunk(index, source));
    }
    void finish_amax() {
        if (spec_.second_level) scaler_.find_levels(amax_, packed_.global_scale);
    }

    void quantize_chunk(std::int64_t index, const SourcePiece& source) {
        if (quantize_down(place_chunk(index), source)) return;
        const Chunk chunk = load_chunk(index, source);
        if (!spec_.is_scaled()) {
            for (std::int64_t r = chunk.row0; r < chunk.row1; ++r) encode_unscaled(chunk, r);
            return;
        }
        // So many rows of tiles at a time that the values are still in L1 when they are encoded.
        const std::int64_t batch =
            grid_.tile_rows *
            std::max<std::int64_t>(1, kBatchElements / chunk.cols() / grid_.tile_rows);
        for (std::int64_t r = chunk.row0; r < chunk.row1;) {
            const std::int64_t start = r / grid_.tile_rows * grid_.tile_rows;
            const std::int64_t end = std::min(chunk.row1, start + batch);
            const TileFactors tiles = scale_tiles(chunk, r, end);
            const std::int64_t count = tiles_across(chunk);
            for (; r < end; ++r) {
                const TileFactors row = tiles.from((r - start) / grid_.tile_rows * count);
                encode_row(chunk, r, row);
                if (spec_.ms_eden) correct_scales(chunk, r, row);
            }
        }
    }

private:
    struct Chunk {
        std::int64_t row0, row1, col0, col1;
        const float* values;  // of (row0, col0)
        std::int64_t stride;
        std::int64_t cols() const { return col1 - col0; }
        const float* row(std::int64_t r) const { return values + (r - row0) * stride; }
    };

    Chunk place_chunk(std::int64_t index) const {
        Chunk chunk{};
        chunk.row0 = index / chunks_.across * chunks_.rows;
        chunk.col0 = index % chunks_.across * chunks_.cols;
        chunk.row1 = std::min(rows_, chunk.row0 + chunks_.rows);
        chunk.col1 = std::min(cols_, chunk.col0 + chunks_.cols);
        return chunk;
    }

    // The values of a chunk, copied row-major when the source's columns are strided or rotated.
    Chunk load_chunk(std::int64_t index, const SourcePiece& source) const {
        Chunk chunk = place_chunk(index);
        const float* const first = source.at(chunk.row0, chunk.col0);
        if (source.col_stride == 1 && rotation_.size == 0) {
            chunk.values = first;
            chunk.stride = source.row_stride;
            return chunk;
        }
        const std::int64_t rows = chunk.row1 - chunk.row0, cols = chunk.cols();
        chunk.stride = (cols + 15) / 16 * 16 + 16;
        float* const copy =
            workspace().values.reserve(static_cast<std::size_t>(rows * chunk.stride));
        if (source.row_stride == 1) {
            ops_.transpose(first, source.col_stride, rows, cols, copy, chunk.stride);
        } else {
            for (std::int64_t r = 0; r < rows; ++r) {
                for (std::int64_t c = 0; c < cols; ++c) {
                    copy[r * chunk.stride + c] =
                        first[r * source.row_stride + c * source.col_stride];
                }
            }
        }
        if (rotation_.size != 0) {
            for (std::int64_t r = 0; r < rows; ++r) {
                ops_.rotate(copy + r * chunk.stride, cols, rotation_, false);
            }
        }
        chunk.values = copy;
        return chunk;
    }

    // A chunk of a transposed source without turning the values over: BF16, or rows that are single
    // tiles. False: not possible.
    bool quantize_down(const Chunk& chunk, const SourcePiece& source) {
        const std::int64_t rows = chunk.row1 - chunk.row0;
        if (source.row_stride != 1 || source.col_stride == 1 || rotation_.size != 0 ||
            chunk.cols() % 128 != 0 || rows % 16 != 0) {
            return false;
        }
        const float* const first = source.at(chunk.row0, chunk.col0);
        if (!spec_.is_scaled()) {
            if (spec_.is_fp32() || spec_.stochastic()) return false;
            ops_.encode_bf16_down(first, source.col_stride, rows, chunk.cols(),
                                  packed_.codes + chunk.row0 * stride_ + 2 * chunk.col0, stride_);
            return true;
        }
        const RowOps::EncodeDown encode = encode_down();
        if (encode == nullptr || (!narrow_down_ && chunk.cols() > grid_.tile_cols)) return false;
        const std::int64_t count = tiles_across(chunk), tile = chunk.col0 / grid_.tile_cols;
        const TileFactors tiles = workspace().plain.reserve(count * rows);
        for (std::int64_t t = 0; t < count; ++t) {
            std::uint32_t* const amax =
                chunks_.local ? workspace().zero_amax(rows) : &amax_of(chunk.row0, tile + t);
            if (chunks_.local) {
                const std::int64_t c = t * grid_.tile_cols;
                ops_.amax_columns(first + c * source.col_stride, source.col_stride, rows,
                                  std::min(grid_.tile_cols, chunk.cols() - c), amax);
            }
            scaler_.scale(amax, chunk.row0, tile + t, rows, 1, 1.0f, tiles.from(t * rows));
        }
        const Scaling wanted = narrow_down_ ? Scaling::kMultiply : Scaling::kDivideByReciprocal;
        if (std::any_of(tiles.scaling, tiles.scaling + count * rows,
                        [&](Scaling s) { return s != wanted; })) {
            return false;
        }
        store_down_scales(chunk, tile, count, tiles);
        const auto block = static_cast<std::uint64_t>((chunk.row0 * cols_ + chunk.col0) / 8);
        encode(first, source.col_stride, rows, chunk.cols(), {tiles, grid_.tile_cols},
               {noise_, block, static_cast<std::uint64_t>(cols_ / 8)},
               packed_.codes + chunk.row0 * stride_ + chunk.col0 * spec_.element->bits / 8,
               stride_);
        return true;
    }

    // The loop for that; null where the spec has none.
    RowOps::EncodeDown encode_down() const {
        const bool one_tile = chunks_.local && grid_.tile_rows == 1 &&
                              spec_.scale == ScaleFormat::kFp32 && !narrow_down_;
        if (!(one_tile || narrow_down_) || spec_.four_over_six != formats::FourOverSix::kOff ||
            spec_.ms_eden || (spec_.stochastic() && cols_ % 8 != 0)) {
            return nullptr;
        }
        const auto element = static_cast<std::size_t>(element_index(*spec_.element));
        if (element >= ops_.encode_down.size()) return nullptr;
        const auto& loops = (narrow_down_ ? ops_.encode_narrow : ops_.encode_down)[element];
        if (spec_.rounding == formats::Rounding::kNearestEven) return loops[0];
        const bool noise16 = spec_.stochastic() && spec_.noise_bits == formats::kMostNoiseBits;
        return noise16 ? loops[1] : nullptr;
    }

    // What the scales of `count` tiles from `tile` on, one below the other per row, are stored as.
    void store_down_scales(const Chunk& chunk, std::int64_t tile, std::int64_t count,
                           const TileFactors& tiles) const {
        const std::int64_t rows = chunk.row1 - chunk.row0;
        const auto store = [&](const auto* from, auto* to) {
            to += chunk.row0 * grid_.grid_cols + tile;
            for (std::int64_t r = 0; r < rows; ++r, to += grid_.grid_cols) {
                for (std::int64_t t = 0; t < count; ++t) to[t] = from[t * rows + r];
            }
        };
        spec_.scale == ScaleFormat::kFp32 ? store(tiles.scale, packed_.scales_f32)
                                          : store(tiles.codes, packed_.scale_codes);
    }

    // Narrow tiles of a transposed source lie in the order in which they are encoded.
    std::uint32_t& amax_of(std::int64_t tile_row, std::int64_t tile) {
        const std::int64_t i =
            narrow_down_ ? tile * rows_ + tile_row : tile_row * grid_.grid_cols + tile;
        return amax_[static_cast<std::size_t>(i)];
    }
    // Whether every tile lies in one chunk.
    bool whole_tiles() const {
        return chunks_.cols % grid_.tile_cols == 0 && chunks_.rows % grid_.tile_rows == 0;
    }

    void amax_chunk(const Chunk& chunk) {
        const RowSpan span{chunk.col0, chunk.col1, grid_.tile_cols};
        const std::int64_t first = chunk.col0 / grid_.tile_cols;
        const std::int64_t count = tiles_across(chunk);
        for (std::int64_t r = chunk.row0; r < chunk.row1; ++r) {
            const std::int64_t tile_row = r / grid_.tile_rows;
            if (whole_tiles() && !narrow_down_) {
                ops_.amax(chunk.row(r), span, &amax_of(tile_row, first));
                continue;
            }
            std::uint32_t* const local = workspace().zero_amax(count);
            ops_.amax(chunk.row(r), span, local);
            for (std::int64_t i = 0; i < count; ++i) raise(amax_of(tile_row, first + i), local[i]);
        }
    }

    // The same for a transposed source, without turning it over.
    void amax_down_chunk(const Chunk& chunk, const SourcePiece& source) {
        const std::int64_t rows = chunk.row1 - chunk.row0;
        for (std::int64_t c = chunk.col0; c < chunk.col1;) {
            const std::int64_t tile = c / grid_.tile_cols;
            const std::int64_t end = std::min(chunk.col1, (tile + 1) * grid_.tile_cols);
            const bool in_place = whole_tiles() && narrow_down_;
            std::uint32_t* const amax =
                in_place ? &amax_of(chunk.row0, tile) : workspace().zero_amax(rows);
            ops_.amax_columns(source.at(chunk.row0, c), source.col_stride, rows, end - c, amax);
            for (std::int64_t r = 0; !in_place && r < rows; ++r) {
                raise(amax_of((chunk.row0 + r) / grid_.tile_rows, tile), amax[r]);
            }
            c = end;
        }
    }

    // Chunks of several threads may meet in one tile; the largest does not depend on who comes
    // first.
    static void raise(std::uint32_t& shared, std::uint32_t value) {
        std::atomic_ref<std::uint32_t> tile(shared);
        std::uint32_t seen = tile.load(std::memory_order_relaxed);
        while (seen < value &&
               !tile.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
        }
    }

    std::int64_t tiles_across(const Chunk& chunk) const {
        return (chunk.col1 - 1) / grid_.tile_cols - chunk.col0 / grid_.tile_cols + 1;
    }

    // Factors of the tiles under rows [begin, end) of the chunk, row-major. The chunk that holds
    // the first element of a tile stores its scale.
    TileFactors scale_tiles(const Chunk& chunk, std::int64_t begin, std::int64_t end) {
        const std::int64_t count = tiles_across(chunk), first = chunk.col0 / grid_.tile_cols;
        const std::int64_t top = begin / grid_.tile_rows;
        const std::int64_t bottom = (end - 1) / grid_.tile_rows + 1;
        const std::int64_t all = (bottom - top) * count;
        std::uint32_t* const amax = workspace().zero_amax(all);
        if (chunks_.local) {
            const RowSpan span{chunk.col0, chunk.col1, grid_.tile_cols};
            for (std::int64_t r = begin; r < end; ++r) {
                ops_.amax(chunk.row(r), span, amax + (r / grid_.tile_rows - top) * count);
            }
        } else {
            for (std::int64_t t = top; t < bottom; ++t) {
                std::uint32_t* const row = amax + (t - top) * count;
                if (!narrow_down_) std::copy_n(&amax_of(t, first), count, row);
                for (std::int64_t i = 0; narrow_down_ && i < count; ++i) {
                    row[i] = amax_of(t, first + i);
                }
            }
        }
        const TileFactors tiles = workspace().plain.reserve(all);
        scaler_.scale(amax, top, first, bottom - top, count, 1.0f, tiles);
        if (spec_.four_over_six != formats::FourOverSix::kOff) {
            const TileFactors raised = workspace().raised.reserve(all);
            scaler_.scale(amax, top, first, bottom - top, count, 1.5f, raised);
            take_better(chunk, begin, end, tiles, raised);
        }
        const std::int64_t skip = chunk.col0 % grid_.tile_cols == 0 ? 0 : 1;
        for (std::int64_t t = top; t < bottom; ++t) {
            if (t * grid_.tile_rows < begin) continue;
            const TileFactors row = tiles.from((t - top) * count);
            const std::int64_t target = t * grid_.grid_cols + first + skip;
            if (spec_.scale == ScaleFormat::kFp32) {
                std::copy(row.scale + skip, row.scale + count, packed_.scales_f32 + target);
            } else {
                std::copy(row.codes + skip, row.codes + count, packed_.scale_codes + target);
            }
        }
        return tiles;
    }

    // 4over6: the scales of `raised` for the tiles under rows [begin, end) whose error they lower.
    void take_better(const Chunk& chunk, std::int64_t begin, std::int64_t end,
                     const TileFactors& tiles, const TileFactors& raised) const {
        const std::int64_t count = tiles_across(chunk), cols = chunk.cols();
        const std::int64_t all =
            ((end - 1) / grid_.tile_rows - begin / grid_.tile_rows + 1) * count;
        std::vector<double>& errors = workspace().errors;
        errors.assign(static_cast<std::size_t>(2 * all), 0.0);
        const bool squared = spec_.four_over_six == formats::FourOverSix::kMse;
        for (std::int64_t r = begin; r < end; ++r) {
            const std::int64_t offset = (r - begin) / grid_.tile_rows * count;
            for (const bool up : {false, true}) {
                const TileFactors row = (up ? raised : tiles).from(offset);
                const float* const values = decoded_row(chunk, row, nearest_codes(chunk, r, row));
                const float* const x = chunk.row(r);
                for (std::int64_t c = 0; c < cols; ++c) {
                    const double error = double{x[c]} - double{values[c]};
                    errors[static_cast<std::size_t>((up ? all : 0) + offset +
                                                    c / grid_.tile_cols)] +=
                        squared ? error * error : std::abs(error);
                }
            }
        }
        for (std::int64_t i = 0; i < all; ++i) {
            if (!(errors[static_cast<std::size_t>(all + i)] <
                  errors[static_cast<std::size_t>(i)])) {
                continue;
            }
            tiles.scale[i] = raised.scale[i];
            tiles.reciprocal[i] = raised.reciprocal[i];
            tiles.codes[i] = raised.codes[i];
        }
    }

    // The codes of a row, one per byte, rounded to nearest.
    std::uint8_t* nearest_codes(const Chunk& chunk, std::int64_t r,
                                const TileFactors& tiles) const {
        std::uint8_t* const codes =
            workspace().codes.reserve(static_cast<std::size_t>(chunk.cols()));
        ops_.encode[element_index(*spec_.element)][0](
            chunk.row(r), {chunk.col0, chunk.col1, grid_.tile_cols}, tiles, nullptr, codes);
        return codes;
    }

    // What the codes of a row, one per byte, stand for. The chunk begins with a tile.
    const float* decoded_row(const Chunk& chunk, const TileFactors& tiles,
                             const std::uint8_t* codes) const {
        const auto cols = static_cast<std::size_t>(chunk.cols());
        float* const values = workspace().decoded.reserve(cols);
        if (spec_.element->bits == 4) {
            std::uint8_t* const packed = workspace().packed.reserve(cols);
            ops_.pack_nibbles(codes, chunk.cols(), packed);
            codes = packed;
        }
        ops_.decode[element_index(*spec_.element)](codes, {0, chunk.cols(), grid_.tile_cols},
                                                   tiles.scale, scaler_.decode_level(), values);
        return values;
    }

    // MS-EDEN: the scales of one row, corrected and rounded at random.
    void correct_scales(const Chunk& chunk, std::int64_t r, const TileFactors& tiles) const {
        const float* const values = decoded_row(chunk, tiles, nearest_codes(chunk, r, tiles));
        const float* const x = chunk.row(r);
        const std::int64_t first = grid_.index(r, chunk.col0), width = grid_.tile_cols;
        for (std::int64_t group = 0; group < chunk.cols(); group += rotation_.size) {
            const std::int64_t end = std::min<std::int64_t>(chunk.cols(), group + rotation_.size);
            double squares = 0.0, products = 0.0;
            for (std::int64_t c = group; c < end; ++c) {
                if (tiles.scaling[c / width] == Scaling::kZero) continue;
                squares += double{x[c]} * double{x[c]};
                products += double{x[c]} * double{values[c]};
            }
            const auto correction = static_cast<float>(products > 0.0 ? squares / products : 1.0);
            for (std::int64_t c = group; c < end; c += width) {
                if (tiles.scaling[c / width] == Scaling::kZero) continue;
                const auto element = static_cast<std::uint64_t>(r * cols_ + chunk.col0 + c);
                packed_.scale_codes[first + c / width] = formats::encode_scale(
                    spec_.scale, tiles.scale[c / width] * correction,
                    formats::Rounding::kStochastic, noise_bits16(noise_, element));
            }
        }
    }

    // Noise of the elements of one row of the chunk; nullptr when rounding needs none.
    const std::uint16_t* row_noise(const Chunk& chunk, std::int64_t r) const {
        if (!spec_.stochastic()) return nullptr;
        const auto element = static_cast<std::uint64_t>(r * cols_ + chunk.col0);
        const std::uint64_t block = element / 8;
        const auto blocks = static_cast<std::int64_t>(
            (element + static_cast<std::uint64_t>(chunk.cols()) + 7) / 8 - block);
        // Whole groups of 16 blocks are written, and whole vectors are read past the last element.
        const auto room = static_cast<std::size_t>((blocks + 15) / 16 * 128 + 16);
        std::uint16_t* const words = workspace().noise.reserve(room);
        ops_.noise(noise_, block, blocks, words);
        return words + element % 8;
    }

    void encode_row(const Chunk& chunk, std::int64_t r, const TileFactors& tiles) const {
        const RowSpan span{chunk.col0, chunk.col1, grid_.tile_cols};
        const auto encode = ops_.encode[element_index(*spec_.element)][rounding_index(spec_)];
        const std::uint16_t* const noise = row_noise(chunk, r);
        std::uint8_t* const row = packed_.codes + r * stride_;
        if (spec_.element->bits == 8) {
            encode(chunk.row(r), span, tiles, noise, row + chunk.col0);
            return;
        }
        std::uint8_t* const codes =
            workspace().codes.reserve(static_cast<std::size_t>(chunk.cols()));
        encode(chunk.row(r), span, tiles, noise, codes);
        if (spec_.element->bits == 6) {
            pack_sixes(codes, chunk.cols(), row + chunk.col0 / 4 * 3);
        } else {
            ops_.pack_nibbles(codes, chunk.cols(), row + chunk.col0 / 2);
        }
    }

    void encode_unscaled(const Chunk& chunk, std::int64_t r) const {
        std::uint8_t* const row = packed_.codes + r * stride_;
        if (spec_.is_fp32()) {
            std::memcpy(row + 4 * chunk.col0, chunk.row(r),
                        static_cast<std::size_t>(4 * chunk.cols()));
        } else {
            ops_.encode_bf16(chunk.row(r), chunk.cols(), row_noise(chunk, r), row + 2 * chunk.col0);
        }
    }

    const RowOps& ops_;
    const std::int64_t rows_, cols_;
    const QuantSpec& spec_;
    const NoiseAddress& noise_;
    const PackedView& packed_;
    const TileGrid grid_;
    const Chunking chunks_;
    const std::int64_t stride_;
    const bool narrow_down_;  // tiles 16 or 32 wide, for loops that go down the source's columns
    TileScaler scaler_;
    const RowRotation rotation_;
    std::vector<std::uint32_t> amax_;  // of all tiles, when they span chunks
};

}  // namespace
}  // namespace subbyte::kernels
