// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/gemm/panels.h"

#include <algorithm>
#include <cstring>

#include "subbyte/core/aligned_buffer.h"
#include "subbyte/core/parallel.h"
#include "subbyte/kernels/gemm/panel_scales.h"

namespace subbyte::kernels {
namespace {

using formats::PackedView;
using formats::QuantSpec;
using formats::TileGrid;

constexpr std::int64_t kColumnBytes = 560 << 10;  // of a block of B panels: stays in L2
constexpr std::int64_t kScratchBytes = 64 << 20;  // of panels of one side at a time
constexpr std::int64_t kPackGrain = 1 << 14;      // codes that are worth a task
constexpr std::int64_t kTileGrain = 1 << 20;      // multiply-adds that are worth a task

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Some panels of one side.
struct Panels {
    std::int64_t first, count;
    std::int64_t chunks, blocks;  // of one panel
    std::int64_t bytes;           // of one panel
    std::uint8_t* data;
    float* scales;
    std::int32_t* sums;
};

struct Scratch {
    AlignedBuffer<std::uint8_t> data;
    AlignedBuffer<float> scales;
    AlignedBuffer<std::int32_t> sums;
};

// Turns an operand into panels, as many at a time as the scratch memory may hold.
class Packer {
public:
    Packer(const PanelKernel& kernel, const PanelSide& side, const PackedView& view,
           const QuantSpec& spec, ScaleForm form, std::int64_t rows, std::int64_t k,
           Scratch& scratch)
        : side_(side),
          block_(kernel.block),
          grid_(spec.tile, rows, k),
          source_{view.codes,   formats::row_bytes(spec, k),
                  rows,         k,
                  spec.element, spec.element->bits <= 8 ? &code_values(*spec.element) : nullptr,
                  &grid_,       form == ScaleForm::kFolded ? view.scale_codes : nullptr},
          scales_(view, spec, form, rows, k, kernel.block),
          scratch_(scratch),
          count_(divide_up(rows, side.rows)),
          chunks_(divide_up(k, kChunk)),
          bytes_(chunks_ * kChunk * kernel.carrier_bytes * side.rows),
          step_(std::clamp<std::int64_t>(kScratchBytes / bytes_, 1, count_)) {}

    std::int64_t count() const { return count_; }
    std::int64_t step() const { return step_; }

    // The panels [first, first + step), what there is of them. Overwrites the ones before.
    Panels pack(std::int64_t first) const {
        Panels panels{};
        panels.first = first;
        panels.count = std::min(step_, count_ - first);
        panels.chunks = chunks_;
        panels.blocks = chunks_ * (kChunk / block_) * side_.rows;
        panels.bytes = bytes_;
        const auto total = [&](std::int64_t each) {
            return static_cast<std::size_t>(panels.count * each);
        };
        panels.data = scratch_.data.reserve(total(panels.bytes));
        panels.scales = scratch_.scales.reserve(total(panels.blocks));
        if (side_.sums) panels.sums = scratch_.sums.reserve(total(panels.blocks));
        const std::int64_t grain = std::max<std::int64_t>(1, kPackGrain / (source_.k * side_.rows));
        parallel_for(panels.count, grain, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t p = begin; p < end; ++p) {
                const std::int64_t row = (first + p) * side_.rows;
                side_.pack(source_, row, block_, panels.data + p * panels.bytes,
                           side_.sums ? panels.sums + p * panels.blocks : nullptr);
                scales_.expand(row, source_.rows_from(row, side_.rows), side_.rows,
                               panels.scales + p * panels.blocks);
            }
        });
        return panels;
    }

private:
    const PanelSide& side_;
    int block_;
    TileGrid grid_;
    CodeRows source_;
    PanelScales scales_;
    Scratch& scratch_;
    std::int64_t count_, chunks_;
    std::int64_t bytes_;  // of one panel
    std::int64_t step_;
};

// Chunks of K per pass, about even.
std::int64_t slice_chunks(const PanelKernel& kernel, std::int64_t chunks) {
    return divide_up(chunks, divide_up(chunks * kChunk, kernel.slice));
}

class TileLoop {
public:
    TileLoop(const PanelKernel& kernel, const PanelOptions& options, const GemmProblem& problem,
             const Panels& a, const Panels& b, float* d)
        : kernel_(kernel),
          factor_(options.factor),
          multiply_(options.powers ? kernel.multiply_powers : kernel.multiply),
          problem_(problem),
          a_(a),
          b_(b),
          d_(d),
          slice_(slice_chunks(kernel, a.chunks)) {
        const std::int64_t chunk_bytes =
            kChunk * kernel.carrier_bytes + (kernel.b.sums ? 8 : 4) * kChunk / kernel.block;
        column_panels_ =
            std::max<std::int64_t>(2, kColumnBytes / (slice_ * chunk_bytes * kernel.b.rows));
        // Tasks side by side share a block of columns. Where K is cut each task reads it anew, and
        // long tasks pay; at least eight keep several threads busy.
        const std::int64_t column_tasks = divide_up(b.count, column_panels_);
        row_panels_ =
            slice_ == a.chunks ? 4 : std::clamp<std::int64_t>(a.count * column_tasks / 8, 8, 64);
    }

    void run() const {
        const std::int64_t row_tasks = divide_up(a_.count, row_panels_);
        const std::int64_t tasks = row_tasks * divide_up(b_.count, column_panels_);
        const std::int64_t work =
            row_panels_ * column_panels_ * kernel_.a.rows * kernel_.b.rows * problem_.k;
        const std::int64_t grain = std::max<std::int64_t>(1, kTileGrain / work);
        parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t t = begin; t < end; ++t) {
                task(t % row_tasks * row_panels_, t / row_tasks * column_panels_);
            }
        });
    }

private:
    void task(std::int64_t row, std::int64_t column) const {
        const std::int64_t row_end = std::min(a_.count, row + row_panels_);
        const std::int64_t column_end = std::min(b_.count, column + column_panels_);
        for (std::int64_t chunk = 0; chunk < a_.chunks; chunk += slice_) {
            for (std::int64_t i = row; i < row_end; ++i) {
                for (std::int64_t j = column; j < column_end; ++j) tile(i, j, chunk);
            }
        }
    }

    void tile(std::int64_t i, std::int64_t j, std::int64_t chunk) const {
        const int tile_rows = kernel_.a.rows, tile_cols = kernel_.b.rows;
        const std::int64_t block = chunk * (kChunk / kernel_.block);
        const std::int64_t k = chunk * kChunk;
        const std::int64_t rows =
            std::min<std::int64_t>(tile_rows, problem_.m - (a_.first + i) * tile_rows);
        const std::int64_t cols =
            std::min<std::int64_t>(tile_cols, problem_.n - (b_.first + j) * tile_cols);
        float* const d = d_ + (a_.first + i) * tile_rows * problem_.n + (b_.first + j) * tile_cols;
        const bool last = chunk + slice_ >= a_.chunks;
        TileArgs args{a_.data + i * a_.bytes + k * kernel_.carrier_bytes * tile_rows,
                      b_.data + j * b_.bytes + k * kernel_.carrier_bytes * tile_cols,
                      a_.scales + i * a_.blocks + block * tile_rows,
                      b_.scales + j * b_.blocks + block * tile_cols,
                      a_.sums == nullptr ? nullptr : a_.sums + i * a_.blocks + block * tile_rows,
                      b_.sums == nullptr ? nullptr : b_.sums + j * b_.blocks + block * tile_cols,
                      last ? problem_.k - k : slice_ * kChunk,
                      d,
                      problem_.n,
                      chunk > 0,
                      last ? factor_ : 1.0f};
        if (rows == tile_rows && cols == tile_cols) {
            multiply_(args);
            return;
        }
        // Part of a tile: beside D, then copied.
        alignas(64) float whole[kMostTile] = {};
        const auto bytes = static_cast<std::size_t>(cols) * sizeof(float);
        args.d = whole;
        args.d_stride = tile_cols;
        for (std::int64_t r = 0; args.accumulate && r < rows; ++r) {
            std::memcpy(whole + r * tile_cols, d + r * problem_.n, bytes);
        }
        multiply_(args);
        for (std::int64_t r = 0; r < rows; ++r) {
            std::memcpy(d + r * problem_.n, whole + r * tile_cols, bytes);
        }
    }

    static constexpr int kMostTile = 6 * 32;  // elements of the largest tile
    const PanelKernel& kernel_;
    float factor_;
    void (*multiply_)(const TileArgs&);
    const GemmProblem& problem_;
    const Panels &a_, &b_;
    float* d_;
    std::int64_t slice_;  // chunks
    std::int64_t column_panels_ = 0, row_panels_ = 0;
};

}  // namespace

void run_panels(const PanelKernel& kernel, const PanelOptions& options, const GemmProblem& problem,
                const GemmOperands& operands) {
    thread_local Scratch a_scratch, b_scratch;
    const ScaleForm a_form = options.powers   ? ScaleForm::kPower
                             : options.fold_a ? ScaleForm::kFolded
                                              : ScaleForm::kValue;
    const ScaleForm b_form = options.powers   ? ScaleForm::kExponent
                             : options.fold_b ? ScaleForm::kFolded
                                              : ScaleForm::kValue;
    const Packer a_packer(kernel, kernel.a, operands.a, problem.a, a_form, problem.m, problem.k,
                          a_scratch);
    const Packer b_packer(kernel, kernel.b, operands.b, problem.b, b_form, problem.n, problem.k,
                          b_scratch);
    Panels a{};
    for (std::int64_t j = 0; j < b_packer.count(); j += b_packer.step()) {
        const Panels b = b_packer.pack(j);
        for (std::int64_t i = 0; i < a_packer.count(); i += a_packer.step()) {
            if (a.count == 0 || a.first != i) a = a_packer.pack(i);
            TileLoop(kernel, options, problem, a, b, operands.d).run();
        }
    }
}

}  // namespace subbyte::kernels
