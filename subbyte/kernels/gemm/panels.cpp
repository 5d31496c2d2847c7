// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/gemm/panels.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "subbyte/core/parallel.h"
#include "subbyte/kernels/gemm/panel_packer.h"

namespace subbyte::kernels {
namespace {

using formats::PackedView;
using formats::QuantSpec;
using formats::TileGrid;

constexpr std::int64_t kColumnBytes = 560 << 10;  // of a block of B panels: stays in L2
constexpr std::int64_t kScratchBytes = 64 << 20;  // of panels of one side at a time
constexpr std::int64_t kPackBytes = 1 << 14;      // of panels of a task of packing
constexpr std::int64_t kThreadWork = 1 << 21;     // multiply-adds that are worth a thread

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Chunks of K per pass, about even.
std::int64_t slice_chunks(const PanelKernel& kernel, std::int64_t chunks) {
    return divide_up(chunks, divide_up(chunks * kChunk, kernel.slice));
}

// Whether all rows of a panel have the same scales.
bool even_panels(const QuantSpec& spec, int panel_rows) {
    using formats::Tile;
    if (!spec.is_scaled()) return true;
    return spec.level_tile == Tile::tensor() &&
           (spec.tile.kind == Tile::Kind::kTensor ||
            (spec.tile.kind == Tile::Kind::kBlock && spec.tile.rows % panel_rows == 0));
}

TileScales scales_of(const PanelKernel& kernel, const PanelOptions& options,
                     const GemmProblem& problem) {
    if (options.powers) return TileScales::kPowers;
    const bool a_ones = options.fold_a || !problem.a.is_scaled();
    const bool b_ones = options.fold_b || !problem.b.is_scaled();
    const TileScales known = a_ones && b_ones                                  ? TileScales::kOnes
                             : b_ones || even_panels(problem.b, kernel.b.rows) ? TileScales::kEvenB
                                                                               : TileScales::kAny;
    return kernel.multiply[static_cast<int>(known)] != nullptr ? known : TileScales::kAny;
}

// Who packs a side: all threads before the multiplication, or each task the panels that it alone
// multiplies. Then they are still in the second cache, and nobody waits for them.
enum class PackedBy { kAll, kTask };

// How the panels of A and B are multiplied: a task takes some panels of A and a block of B.
class TileLoop {
public:
    // All panels of a side that tasks pack; of the other those at hand.
    TileLoop(const PanelKernel& kernel, const PanelOptions& options, const GemmProblem& problem,
             const GemmOperands& operands, const PanelPacker& a_packer, const PanelPacker& b_packer)
        : kernel_(kernel),
          factor_(options.factor),
          problem_(problem),
          a_packer_(a_packer),
          b_packer_(b_packer),
          operands_(operands),
          chunks_(a_packer.chunks()),
          slice_(slice_chunks(kernel, chunks_)) {
        const TileScales scales = scales_of(kernel, options, problem);
        multiply_ = kernel.multiply[static_cast<int>(scales)];
        const std::int64_t chunk_bytes =
            kChunk * kernel.carrier_bytes + (kernel.b.sums ? 8 : 4) * kChunk / kernel.block;
        column_panels_ =
            std::max<std::int64_t>(2, kColumnBytes / (slice_ * chunk_bytes * kernel.b.rows));
        const std::int64_t a_bytes = a_packer.count() * a_packer.bytes();
        const std::int64_t b_bytes = b_packer.count() * b_packer.bytes();
        if (b_bytes <= kSharedBytes) {
            a_by_ = PackedBy::kTask;
        } else if (a_bytes > kSharedBytes) {
            a_stays_ = scales == TileScales::kOnes && kernel.multiply_in_place != nullptr &&
                       a_packer.can_stay();
            if (a_stays_) multiply_ = kernel.multiply_in_place;
        } else if (b_packer.count() >= kLeastTasks * column_panels_) {
            b_by_ = PackedBy::kTask;
        }
    }

    PackedBy a_by() const { return a_by_; }
    // Packing would write all of A to memory, to be read from there.
    bool a_stays() const { return a_stays_; }
    PackedBy b_by() const { return b_by_; }

    // Cuts the work on these panels into tasks.
    void cut(const Panels& a, const Panels& b) {
        a_ = a;
        b_ = b;
        const std::int64_t column_tasks =
            a_by_ == PackedBy::kTask ? 1 : divide_up(b.count, column_panels_);
        // Tasks side by side share a block of columns. Where K is cut, or there are several blocks,
        // each task reads them anew, and long tasks pay; at least eight keep several threads busy.
        const bool short_tasks =
            slice_ == chunks_ && (a_by_ == PackedBy::kAll || b.count <= column_panels_);
        const std::int64_t most =
            b_by_ == PackedBy::kTask ? a.count
            : short_tasks            ? 4
                                     : std::clamp<std::int64_t>(a.count * column_tasks / 16, 8, 64);
        row_tasks_ = divide_up(a.count, most);
        row_panels_ = divide_up(a.count, row_tasks_);
        tasks_ = row_tasks_ * column_tasks;
    }

    std::int64_t tasks() const { return tasks_; }

    void run_task(std::int64_t task, int repeats) const {
        thread_local PanelScratch scratch;
        Panels a = part(a_, task % row_tasks_ * row_panels_, row_panels_);
        Panels b = part(b_, task / row_tasks_ * column_panels_,
                        a_by_ == PackedBy::kTask ? b_.count : column_panels_);
        if (a_by_ == PackedBy::kTask) a = packed(a_packer_, a, scratch);
        if (b_by_ == PackedBy::kTask) b = packed(b_packer_, b, scratch);
        for (int i = 0; i < repeats; ++i) {
            for (std::int64_t j = 0; j < b.count; j += column_panels_) {
                multiply_all(a, part(b, j, column_panels_));
            }
        }
    }

private:
    static constexpr std::int64_t kSharedBytes = 4 << 20;  // of a side that every task reads
    static constexpr std::int64_t kLeastTasks = 8;

    // Panels [begin, begin + most) of some, or as many as there are.
    static Panels part(const Panels& of, std::int64_t begin, std::int64_t most) {
        Panels some = of;
        some.first += begin;
        some.count = std::min(most, of.count - begin);
        if (of.data == nullptr) return some;
        some.data += begin * of.bytes;
        some.scales += begin * of.blocks;
        if (of.sums != nullptr) some.sums += begin * of.blocks;
        return some;
    }

    static Panels packed(const PanelPacker& packer, const Panels& wanted, PanelScratch& scratch) {
        const Panels panels = packer.place(wanted.first, wanted.count, scratch);
        packer.pack(panels, 0, panels.count);
        return panels;
    }

    void multiply_all(const Panels& a, const Panels& b) const {
        const bool beside = operands_.add && slice_ < chunks_;
        const bool cut = (b.first + b.count) * kernel_.b.rows > problem_.n;  // the last panel
        for (std::int64_t chunk = 0; chunk < (beside ? 1 : chunks_); chunk += slice_) {
            for (std::int64_t i = 0; i < a.count; ++i) {
                const Panels row = part(a, i, 1);
                std::int64_t whole = 0;  // tiles
                if (!beside && (row.first + 1) * kernel_.a.rows <= problem_.m) {
                    whole = cut ? b.count - 1 : b.count;
                    const Panels tiles = part(b, 0, whole);
                    if (whole > 0) {
                        multiply(row, tiles, chunk, place(row, b).d, problem_.n, operands_.add,
                                 i + 1 < a.count);
                    }
                }
                for (std::int64_t j = whole; j < b.count; ++j) {
                    const Panels tile = part(b, j, 1);
                    operands_.add ? add_tile(row, tile) : store_tile(row, tile, chunk);
                }
            }
        }
    }

    // One tile of D, or as much of it as there is.
    struct Place {
        float* d;
        std::int64_t rows, cols;
    };
    Place place(const Panels& a, const Panels& b) const {
        const std::int64_t row = a.first * kernel_.a.rows, col = b.first * kernel_.b.rows;
        return {operands_.d + row * problem_.n + col,
                std::min<std::int64_t>(kernel_.a.rows, problem_.m - row),
                std::min<std::int64_t>(kernel_.b.rows, problem_.n - col)};
    }

    // Has a tile of D on its way from memory while it is computed.
    static void fetch(const Place& p, std::int64_t stride) {
        constexpr std::int64_t kLine = 64 / sizeof(float);
        for (std::int64_t r = 0; r < p.rows; ++r) {
            for (std::int64_t c = 0; c < p.cols; c += kLine) {
                __builtin_prefetch(p.d + r * stride + c, 1);
            }
        }
    }

    // The product of a panel with some over one slice of K, added to what `d` holds from the slices
    // before; the finished product is added to what it holds anyway (`add`, one slice). `more`:
    // the panel behind `a` is next.
    void multiply(const Panels& a, const Panels& b, std::int64_t chunk, float* d,
                  std::int64_t d_stride, bool add, bool more = false) const {
        const int tile_rows = kernel_.a.rows, tile_cols = kernel_.b.rows;
        const std::int64_t block = chunk * (kChunk / kernel_.block);
        const std::int64_t k = chunk * kChunk;
        const bool last = chunk + slice_ >= chunks_;
        // What has no row in the matrix reads one that has, for sums that nobody stores.
        const std::int64_t rows = problem_.m - a.first * tile_rows;
        const auto row = [&](std::int64_t r) { return std::min(r, rows - 1) * a.row_bytes; };
        multiply_({.a = a.data + k * kernel_.carrier_bytes * (a.in_place ? 1 : tile_rows),
                   .b = b.data + k * kernel_.carrier_bytes * tile_cols,
                   .a_rows = {row(0), row(1), row(2), row(3), row(4), row(5)},
                   .a_next = more ? a.bytes : 0,
                   .a_scales = a.scales + block * tile_rows,
                   .b_scales = b.scales + block * tile_cols,
                   .a_sums = a.sums == nullptr ? nullptr : a.sums + block * tile_rows,
                   .b_sums = b.sums == nullptr ? nullptr : b.sums + block * tile_cols,
                   .k = last ? problem_.k - k : slice_ * kChunk,
                   .d = d,
                   .d_stride = d_stride,
                   .accumulate = chunk > 0,
                   .factor = last ? factor_ : 1.0f,
                   .add = add,
                   .tiles = b.count,
                   .b_bytes = b.bytes,
                   .b_blocks = b.blocks});
    }

    // Part of a tile: beside D, then copied.
    void store_tile(const Panels& a, const Panels& b, std::int64_t chunk) const {
        const int tile_cols = kernel_.b.rows;
        const Place p = place(a, b);
        alignas(64) float whole[kMostTile] = {};
        const auto bytes = static_cast<std::size_t>(p.cols) * sizeof(float);
        for (std::int64_t r = 0; chunk > 0 && r < p.rows; ++r) {
            std::memcpy(whole + r * tile_cols, p.d + r * problem_.n, bytes);
        }
        multiply(a, b, chunk, whole, tile_cols, false);
        for (std::int64_t r = 0; r < p.rows; ++r) {
            std::memcpy(p.d + r * problem_.n, whole + r * tile_cols, bytes);
        }
    }

    // All slices beside D, then added.
    void add_tile(const Panels& a, const Panels& b) const {
        const Place p = place(a, b);
        fetch(p, problem_.n);
        alignas(64) float whole[kMostTile];
        for (std::int64_t chunk = 0; chunk < chunks_; chunk += slice_) {
            multiply(a, b, chunk, whole, kernel_.b.rows, false);
        }
        for (std::int64_t r = 0; r < p.rows; ++r) {
            float* const d = p.d + r * problem_.n;
            const float* const sum = whole + r * kernel_.b.rows;
            for (std::int64_t c = 0; c < p.cols; ++c) d[c] += sum[c];
        }
    }

    static constexpr int kMostTile = 6 * 32;  // elements of the largest tile
    const PanelKernel& kernel_;
    float factor_;
    void (*multiply_)(const TileArgs&) = nullptr;
    const GemmProblem& problem_;
    const PanelPacker &a_packer_, &b_packer_;
    const GemmOperands& operands_;
    std::int64_t chunks_, slice_;  // of K; slices count in chunks
    std::int64_t column_panels_ = 0;
    PackedBy a_by_ = PackedBy::kAll, b_by_ = PackedBy::kAll;
    bool a_stays_ = false;
    Panels a_{}, b_{};
    std::int64_t row_panels_ = 0, row_tasks_ = 0, tasks_ = 0;
};

// Packs what is packed by all and multiplies, in one parallel region: whoever is free takes the
// next task. The tasks of packing come first; when one of the others is taken, all packing is in
// the hands of threads that are at work, and waiting for it ends.
struct Packing {
    const PanelPacker& packer;
    const Panels& panels;
    bool needed;
    std::int64_t group =
        std::max<std::int64_t>(1, kPackBytes / packer.bytes());  // panels of a task
    std::int64_t tasks = needed ? divide_up(panels.count, group) : 0;

    void run(std::int64_t task) const {
        packer.pack(panels, task * group, std::min(panels.count, (task + 1) * group));
    }
};

void run_tasks(const Packing& b, const Packing& a, const TileLoop& tiles, std::int64_t work,
               int repeats) {
    const std::int64_t packs = a.tasks + b.tasks, total = packs + tiles.tasks();
    const std::int64_t threads = std::clamp<std::int64_t>(work / kThreadWork, 1, total);
    std::atomic<std::int64_t> next{0}, packed{0};
    parallel_for(threads, 1, [&](std::int64_t, std::int64_t) {
        for (std::int64_t t = next++; t < total; t = next++) {
            if (t < packs) {
                t < b.tasks ? b.run(t) : a.run(t - b.tasks);
                ++packed;
                continue;
            }
            while (packed != packs) std::this_thread::yield();
            tiles.run_task(t - packs, repeats);
        }
    });
}

// The panels [first, ...) that are at hand at a time: all where tasks pack them.
class Step {
public:
    Step(const PanelPacker& packer, PackedBy by)
        : packer_(packer),
          by_(by),
          step_(by == PackedBy::kTask
                    ? packer.count()
                    : std::clamp<std::int64_t>(kScratchBytes / packer.bytes(), 1, packer.count())) {
    }
    std::int64_t size() const { return step_; }
    Panels at(std::int64_t first, PanelScratch& scratch) const {
        const std::int64_t count = std::min(step_, packer_.count() - first);
        if (by_ == PackedBy::kAll) return packer_.place(first, count, scratch);
        Panels none{};
        none.first = first;
        none.count = count;
        return none;
    }

private:
    const PanelPacker& packer_;
    PackedBy by_;
    std::int64_t step_;
};

}  // namespace

void run_panels(const PanelKernel& kernel, const PanelOptions& options, const GemmProblem& problem,
                const GemmOperands& operands) {
    thread_local PanelScratch a_scratch, b_scratch;
    const ScaleForm a_form = options.powers   ? ScaleForm::kPower
                             : options.fold_a ? ScaleForm::kFolded
                                              : ScaleForm::kValue;
    const ScaleForm b_form = options.powers   ? ScaleForm::kExponent
                             : options.fold_b ? ScaleForm::kFolded
                                              : ScaleForm::kValue;
    PanelPacker a_packer(kernel, kernel.a, operands.a, problem.a, a_form, problem.m, problem.k);
    const PanelPacker b_packer(kernel, kernel.b, operands.b, problem.b, b_form, problem.n,
                               problem.k);
    TileLoop tiles(kernel, options, problem, operands, a_packer, b_packer);
    if (tiles.a_stays()) a_packer.stay_in_place();
    const Step a_step(a_packer, tiles.a_by()), b_step(b_packer, tiles.b_by());
    Panels a{};
    for (std::int64_t j = 0; j < b_packer.count(); j += b_step.size()) {
        const Panels b = b_step.at(j, b_scratch);
        for (std::int64_t i = 0; i < a_packer.count(); i += a_step.size()) {
            const bool fresh_a = a.count == 0 || a.first != i;
            if (fresh_a) a = a_step.at(i, a_scratch);
            tiles.cut(a, b);
            const std::int64_t work = a.count * kernel.a.rows * b.count * kernel.b.rows * problem.k;
            run_tasks({b_packer, b, i == 0 && tiles.b_by() == PackedBy::kAll},
                      {a_packer, a, fresh_a && tiles.a_by() == PackedBy::kAll}, tiles, work,
                      operands.repeats);
        }
    }
}

}  // namespace subbyte::kernels
