// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/gemm/panels.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

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
constexpr std::int64_t kPackCodes = 1 << 14;      // of a task of packing
constexpr std::int64_t kThreadWork = 1 << 21;     // multiply-adds that are worth a thread

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
          step_(std::clamp<std::int64_t>(kScratchBytes / bytes_, 1, count_)),
          group_(std::max<std::int64_t>(1, kPackCodes / (k * side.rows))) {}

    std::int64_t count() const { return count_; }
    std::int64_t step() const { return step_; }

    // Room for the panels [first, first + step), what there is of them. Overwrites the ones before.
    Panels place(std::int64_t first) const {
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
        return panels;
    }

    // Packing is cut into tasks of some panels each.
    std::int64_t tasks(const Panels& panels) const { return divide_up(panels.count, group_); }
    void run_task(const Panels& panels, std::int64_t task) const {
        const std::int64_t end = std::min(panels.count, (task + 1) * group_);
        for (std::int64_t p = task * group_; p < end; ++p) {
            const std::int64_t row = (panels.first + p) * side_.rows;
            side_.pack(source_, row, block_, panels.data + p * panels.bytes,
                       side_.sums ? panels.sums + p * panels.blocks : nullptr);
            scales_.expand(row, source_.rows_from(row, side_.rows), side_.rows,
                           panels.scales + p * panels.blocks);
        }
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
    std::int64_t group_;  // panels per task
};

// Chunks of K per pass, about even.
std::int64_t slice_chunks(const PanelKernel& kernel, std::int64_t chunks) {
    return divide_up(chunks, divide_up(chunks * kChunk, kernel.slice));
}

class TileLoop {
public:
    TileLoop(const PanelKernel& kernel, const PanelOptions& options, const GemmProblem& problem,
             const Panels& a, const Panels& b, const GemmOperands& operands)
        : kernel_(kernel),
          factor_(options.factor),
          multiply_(options.powers ? kernel.multiply_powers : kernel.multiply),
          problem_(problem),
          a_(a),
          b_(b),
          d_(operands.d),
          add_(operands.add),
          slice_(slice_chunks(kernel, a.chunks)) {
        const std::int64_t chunk_bytes =
            kChunk * kernel.carrier_bytes + (kernel.b.sums ? 8 : 4) * kChunk / kernel.block;
        column_panels_ =
            std::max<std::int64_t>(2, kColumnBytes / (slice_ * chunk_bytes * kernel.b.rows));
        // Tasks side by side share a block of columns. Where K is cut each task reads it anew, and
        // long tasks pay; at least eight keep several threads busy.
        const std::int64_t column_tasks = divide_up(b.count, column_panels_);
        const std::int64_t most =
            slice_ == a.chunks ? 4 : std::clamp<std::int64_t>(a.count * column_tasks / 16, 8, 64);
        row_tasks_ = divide_up(a.count, most);
        row_panels_ = divide_up(a.count, row_tasks_);
        tasks_ = row_tasks_ * column_tasks;
    }

    std::int64_t tasks() const { return tasks_; }

    void run_task(std::int64_t task) const {
        const std::int64_t row = task % row_tasks_ * row_panels_;
        const std::int64_t column = task / row_tasks_ * column_panels_;
        const std::int64_t row_end = std::min(a_.count, row + row_panels_);
        const std::int64_t column_end = std::min(b_.count, column + column_panels_);
        const auto for_panels = [&](auto body) {
            for (std::int64_t i = row; i < row_end; ++i) {
                for (std::int64_t j = column; j < column_end; ++j) body(i, j);
            }
        };
        if (add_) return for_panels([&](std::int64_t i, std::int64_t j) { add_tile(i, j); });
        for (std::int64_t chunk = 0; chunk < a_.chunks; chunk += slice_) {
            for_panels([&](std::int64_t i, std::int64_t j) { store_tile(i, j, chunk); });
        }
    }

private:
    // One tile of D, or as much of it as there is.
    struct Place {
        float* d;
        std::int64_t rows, cols;
    };
    Place place(std::int64_t i, std::int64_t j) const {
        const std::int64_t row = (a_.first + i) * kernel_.a.rows;
        const std::int64_t col = (b_.first + j) * kernel_.b.rows;
        return {d_ + row * problem_.n + col,
                std::min<std::int64_t>(kernel_.a.rows, problem_.m - row),
                std::min<std::int64_t>(kernel_.b.rows, problem_.n - col)};
    }

    // The product over one slice of K, added to what `d` holds from the slices before.
    void multiply(std::int64_t i, std::int64_t j, std::int64_t chunk, float* d,
                  std::int64_t d_stride) const {
        const int tile_rows = kernel_.a.rows, tile_cols = kernel_.b.rows;
        const std::int64_t block = chunk * (kChunk / kernel_.block);
        const std::int64_t k = chunk * kChunk;
        const bool last = chunk + slice_ >= a_.chunks;
        multiply_({a_.data + i * a_.bytes + k * kernel_.carrier_bytes * tile_rows,
                   b_.data + j * b_.bytes + k * kernel_.carrier_bytes * tile_cols,
                   a_.scales + i * a_.blocks + block * tile_rows,
                   b_.scales + j * b_.blocks + block * tile_cols,
                   a_.sums == nullptr ? nullptr : a_.sums + i * a_.blocks + block * tile_rows,
                   b_.sums == nullptr ? nullptr : b_.sums + j * b_.blocks + block * tile_cols,
                   last ? problem_.k - k : slice_ * kChunk, d, d_stride, chunk > 0,
                   last ? factor_ : 1.0f});
    }

    void store_tile(std::int64_t i, std::int64_t j, std::int64_t chunk) const {
        const int tile_cols = kernel_.b.rows;
        const Place p = place(i, j);
        if (p.rows == kernel_.a.rows && p.cols == tile_cols) {
            return multiply(i, j, chunk, p.d, problem_.n);
        }
        // Part of a tile: beside D, then copied.
        alignas(64) float whole[kMostTile] = {};
        const auto bytes = static_cast<std::size_t>(p.cols) * sizeof(float);
        for (std::int64_t r = 0; chunk > 0 && r < p.rows; ++r) {
            std::memcpy(whole + r * tile_cols, p.d + r * problem_.n, bytes);
        }
        multiply(i, j, chunk, whole, tile_cols);
        for (std::int64_t r = 0; r < p.rows; ++r) {
            std::memcpy(p.d + r * problem_.n, whole + r * tile_cols, bytes);
        }
    }

    // All slices beside D, then added.
    void add_tile(std::int64_t i, std::int64_t j) const {
        alignas(64) float whole[kMostTile];
        for (std::int64_t chunk = 0; chunk < a_.chunks; chunk += slice_) {
            multiply(i, j, chunk, whole, kernel_.b.rows);
        }
        const Place p = place(i, j);
        for (std::int64_t r = 0; r < p.rows; ++r) {
            float* const d = p.d + r * problem_.n;
            const float* const sum = whole + r * kernel_.b.rows;
            for (std::int64_t c = 0; c < p.cols; ++c) d[c] += sum[c];
        }
    }

    static constexpr int kMostTile = 6 * 32;  // elements of the largest tile
    const PanelKernel& kernel_;
    float factor_;
    void (*multiply_)(const TileArgs&);
    const GemmProblem& problem_;
    const Panels &a_, &b_;
    float* d_;
    bool add_;
    std::int64_t slice_;  // chunks
    std::int64_t column_panels_ = 0, row_panels_ = 0;
    std::int64_t row_tasks_ = 0, tasks_ = 0;
};

// Packs the panels that `packs` names and multiplies, in one parallel region: whoever is free takes
// the next task. The tasks of packing come first; when one of the others is taken, all packing is
// in the hands of threads that are at work, and waiting for it ends.
struct Packing {
    const Packer& packer;
    const Panels& panels;
    std::int64_t tasks = packer.tasks(panels);
};

void run_tasks(std::initializer_list<Packing> packing, const TileLoop& tiles, std::int64_t work,
               int repeats) {
    std::int64_t packs = 0;
    for (const Packing& p : packing) packs += p.tasks;
    const auto pack = [&](std::int64_t task) {
        for (const Packing& p : packing) {
            if (task < p.tasks) return p.packer.run_task(p.panels, task);
            task -= p.tasks;
        }
    };
    const std::int64_t total = packs + tiles.tasks();
    const std::int64_t threads = std::clamp<std::int64_t>(work / kThreadWork, 1, total);
    std::atomic<std::int64_t> next{0}, packed{0};
    parallel_for(threads, 1, [&](std::int64_t, std::int64_t) {
        for (std::int64_t t = next++; t < total; t = next++) {
            if (t < packs) {
                pack(t);
                ++packed;
                continue;
            }
            while (packed != packs) std::this_thread::yield();
            for (int i = 0; i < repeats; ++i) tiles.run_task(t - packs);
        }
    });
}

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
        const Panels b = b_packer.place(j);
        for (std::int64_t i = 0; i < a_packer.count(); i += a_packer.step()) {
            const bool fresh_a = a.count == 0 || a.first != i;
            if (fresh_a) a = a_packer.place(i);
            const TileLoop tiles(kernel, options, problem, a, b, operands);
            const std::int64_t work = a.count * kernel.a.rows * b.count * kernel.b.rows * problem.k;
            run_tasks({{b_packer, b, i == 0 ? b_packer.tasks(b) : 0},
                       {a_packer, a, fresh_a ? a_packer.tasks(a) : 0}},
                      tiles, work, operands.repeats);
        }
    }
}

}  // namespace subbyte::kernels
