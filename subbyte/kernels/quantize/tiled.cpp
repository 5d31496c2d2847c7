// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/quantize/tiled.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "subbyte/core/float_mode.h"
#include "subbyte/core/parallel.h"
#include "subbyte/kernels/quantize/quantizer-inl.h"

namespace subbyte::kernels {

using formats::MatrixView;

int element_index(const formats::ElementFormat& element) {
    static constexpr std::string_view kNames[] = {
        "e4m3",   "e5m2", "e2m1", "int8", "int4",     "e2m3",      "e3m2",     "e3m4",
        "mxint8", "nf4",  "lns8", "lns4", "dynamic8", "udynamic8", "dynamic4", "ulinear4"};
    const auto* const name = std::find(std::begin(kNames), std::end(kNames), element.name);
    return name == std::end(kNames) ? -1 : static_cast<int>(name - std::begin(kNames));
}

int rounding_index(const formats::QuantSpec& spec) {
    using formats::Rounding;
    switch (spec.rounding) {
        case Rounding::kNearestEven: return 0;
        case Rounding::kStochastic:
            return spec.noise_bits == formats::kMostNoiseBits ? 1 : spec.noise_bits == 8 ? 2 : -1;
        case Rounding::kNearestAway: return 3;
        case Rounding::kTowardZero: return 4;
        case Rounding::kUp: return 5;
        case Rounding::kDown: return 6;
        case Rounding::kNearestZero: break;
    }
    return -1;
}

RowRotation row_rotation(const formats::Rotation& rotation, const formats::SignBits& signs) {
    RowRotation row;
    row.size = rotation.size;
    row.signs = signs;
    for (int i = 0; i < 128; ++i) row.flips[i] = formats::is_negative(signs, i) ? 0x80000000u : 0;
    return row;
}

namespace {

// What a copy holds besides its codes and scales.
void write_head(const QuantizeTarget& target) {
    if (target.packed.global_scale != nullptr &&
        target.spec.level_tile == formats::Tile::tensor()) {
        *target.packed.global_scale = 1.0f;
    }
    if (target.spec.rotation.fresh) {
        const formats::SignBits signs = signs_of(target);
        std::copy(signs.begin(), signs.end(), target.packed.signs);
    }
}

constexpr std::int64_t kMostTogether = 128 * 1024;  // elements that stay in L2

// Goes through sources region by region with all quantisers at once, so that each comes from memory
// once. Regions hold whole chunks of each quantiser.
class Pass {
public:
    struct Part {
        Quantizer& quantizer;
        std::size_t source;
        bool turned;  // works on the transposed source
    };
    using Piece = ComputedMatrices::Piece;
    using Pieces = std::array<SourcePiece, 2>;

    Pass(std::vector<Part> parts, std::int64_t rows, std::int64_t cols)
        : parts_(std::move(parts)), rows_(rows), cols_(cols) {
        for (const Part& part : parts_) {
            const Chunking& chunks = part.quantizer.chunks();
            region_rows_ = std::lcm(region_rows_, part.turned ? chunks.cols : chunks.rows);
            region_cols_ = std::lcm(region_cols_, part.turned ? chunks.rows : chunks.cols);
        }
    }

    bool fits(std::int64_t elements) const {
        return region_rows_ <= elements && region_cols_ <= elements / region_rows_;
    }

    // `provide(region)` says where its sources are.
    template <class Provide>
    void run(const Provide& provide) const {
        const auto pending = [](const Quantizer& q) { return q.needs_amax(); };
        const auto all = [](const Quantizer&) { return true; };
        for (const Part& part : parts_) {
            if (part.quantizer.needs_amax()) part.quantizer.start_amax();
        }
        if (std::any_of(parts_.begin(), parts_.end(),
                        [&](const Part& part) { return pending(part.quantizer); })) {
            for_chunks(pending, provide, &Quantizer::find_amax);
        }
        for (const Part& part : parts_) part.quantizer.finish_amax();
        for_chunks(all, provide, &Quantizer::quantize_chunk);
    }

private:
    using Visit = void (Quantizer::*)(std::int64_t, const SourcePiece&);

    template <class Wanted, class Provide>
    void for_chunks(const Wanted& wanted, const Provide& provide, Visit visit) const {
        const std::int64_t down = (rows_ - 1) / region_rows_ + 1;
        const std::int64_t across = (cols_ - 1) / region_cols_ + 1;
        const std::int64_t elements = std::min(rows_, region_rows_) * std::min(cols_, region_cols_);
        const std::int64_t grain = std::max<std::int64_t>(1, kTaskElements / elements);
        parallel_for(down * across, grain, [&](std::int64_t begin, std::int64_t end) {
            const IeeeFloatScope exact;
            for (std::int64_t i = begin; i < end; ++i) {
                const std::int64_t row = i / across * region_rows_;
                const std::int64_t col = i % across * region_cols_;
                const Piece region{row, std::min(rows_, row + region_rows_), col,
                                   std::min(cols_, col + region_cols_)};
                const Pieces sources = provide(region);
                for (const Part& part : parts_) {
                    if (wanted(part.quantizer)) {
                        visit_region(part, row, col, sources[part.source], visit);
                    }
                }
            }
        });
    }

    void visit_region(const Part& part, std::int64_t row, std::int64_t col,
                      const SourcePiece& source, Visit visit) const {
        std::int64_t rows = region_rows_, cols = region_cols_;
        if (part.turned) {
            std::swap(row, col);
            std::swap(rows, cols);
        }
        const SourcePiece piece = part.turned ? source.turned() : source;
        const Chunking& chunks = part.quantizer.chunks();
        const std::int64_t bottom = std::min(chunks.down, (row + rows) / chunks.rows);
        const std::int64_t right = std::min(chunks.across, (col + cols) / chunks.cols);
        for (std::int64_t i = row / chunks.rows; i < bottom; ++i) {
            for (std::int64_t j = col / chunks.cols; j < right; ++j) {
                (part.quantizer.*visit)(i * chunks.across + j, piece);
            }
        }
    }

    const std::vector<Part> parts_;
    const std::int64_t rows_, cols_;  // of the source
    std::int64_t region_rows_ = 1, region_cols_ = 1;
};

Quantizer quantizer_of(const RowOps& ops, const MatrixView& source, const QuantizeTarget& target) {
    return {ops, source.rows, source.cols, source.col_stride != 1, target};
}

auto stored(const MatrixView& source) {
    return [piece = SourcePiece{source.data, 0, 0, source.row_stride, source.col_stride}](
               const Pass::Piece&) { return Pass::Pieces{piece}; };
}

}  // namespace

void quantize_tiled(const RowOps& ops, const MatrixView& source, const QuantizeTarget& target) {
    write_head(target);
    if (source.rows == 0 || source.cols == 0) return;
    Quantizer quantizer = quantizer_of(ops, source, target);
    Pass({{quantizer, 0, false}}, source.rows, source.cols).run(stored(source));
}

void quantize_both_tiled(const RowOps& ops, const MatrixView& source, const QuantizeTarget& rows,
                         const QuantizeTarget& columns) {
    write_head(rows);
    write_head(columns);
    if (source.rows == 0 || source.cols == 0) return;
    Quantizer by_row = quantizer_of(ops, source, rows);
    Quantizer by_column = quantizer_of(ops, transposed(source), columns);
    const Pass both({{by_row, 0, false}, {by_column, 0, true}}, source.rows, source.cols);
    if (both.fits(kMostTogether)) return both.run(stored(source));
    Pass({{by_row, 0, false}}, source.rows, source.cols).run(stored(source));
    Pass({{by_column, 0, true}}, source.rows, source.cols).run(stored(source));
}

bool quantize_computed_tiled(const RowOps& ops, const ComputedMatrices& source,
                             std::span<const QuantizeTargets> targets) {
    constexpr std::int64_t kMostCols = 512;
    for (const QuantizeTargets& target : targets) {
        write_head(target.rows);
        write_head(target.columns);
    }
    if (source.rows == 0 || source.cols == 0) return true;
    std::vector<Quantizer> quantizers;
    quantizers.reserve(2 * targets.size());
    std::vector<Pass::Part> parts;
    for (std::size_t i = 0; i < targets.size(); ++i) {
        quantizers.emplace_back(ops, source.rows, source.cols, false, targets[i].rows, kMostCols);
        parts.push_back({quantizers.back(), i, false});
        quantizers.emplace_back(ops, source.cols, source.rows, true, targets[i].columns);
        parts.push_back({quantizers.back(), i, true});
    }
    const Pass pass(std::move(parts), source.rows, source.cols);
    if (!pass.fits(kMostTogether)) return false;
    pass.run([&](const Pass::Piece& piece) {
        const std::int64_t cols = piece.col1 - piece.col0;
        const std::int64_t stride = (cols + 15) / 16 * 16;
        const std::int64_t size = (piece.row1 - piece.row0) * stride;
        float* const values =
            workspace().computed.reserve(static_cast<std::size_t>(size) * targets.size());
        float* const out[] = {values, values + (targets.size() - 1) * size};
        source.compute(piece, out, stride);
        return Pass::Pieces{SourcePiece{out[0], piece.row0, piece.col0, stride, 1},
                            SourcePiece{out[1], piece.row0, piece.col0, stride, 1}};
    });
    return true;
}

}  // namespace subbyte::kernels
