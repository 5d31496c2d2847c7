// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "subbyte/formats/quantize_reference.h"

namespace subbyte::kernels {

constexpr std::int64_t kChunkColumns = 1024;        // of a row: values, codes and noise stay in L1
constexpr std::int64_t kChunkElements = 32 * 1024;  // of several rows: values stay in L2
constexpr std::int64_t kChunkRows = 16;
constexpr std::int64_t kTransposedRows = 128;  // eight cache lines of each source column
constexpr std::int64_t kTransposedElements = 16 * 1024;

// How a matrix is cut into chunks, numbered row-major. With `local` tiles every chunk holds whole
// tiles; otherwise tiles may span chunks and their amax comes from a pass of its own.
struct Chunking {
    std::int64_t rows = 1, cols = 1;    // size of a full chunk
    std::int64_t down = 0, across = 0;  // number of chunks
    bool local = true;

    // Full chunks are about `most_cols` wide.
    Chunking(std::int64_t matrix_rows, std::int64_t matrix_cols, bool transposed,
             const formats::QuantSpec& spec, const formats::TileGrid& grid,
             std::int64_t most_cols) {
        local = spec.is_scaled() && !spec.second_level && grid.tile_cols <= kChunkColumns &&
                grid.tile_rows * grid.tile_cols <= 2 * kChunkElements;
        const std::int64_t least = transposed ? kTransposedRows : kChunkRows;
        // What looks at a tile once more (4over6) needs all of it.
        const bool whole = local || spec.four_over_six != formats::FourOverSix::kOff;
        const std::int64_t unit_rows = whole ? grid.tile_rows : 1;
        // Codes of a chunk start at a byte, and rotations lie within one (whole vector blocks).
        const std::int64_t groups = spec.rotation.size != 0 ? 256 : 4;
        const std::int64_t unit_cols = whole ? std::lcm(grid.tile_cols, groups) : groups;
        rows = unit_rows * std::max<std::int64_t>(1, least / unit_rows);
        const std::int64_t most = std::min(
            most_cols, transposed ? kTransposedElements / rows : kChunkElements / unit_rows);
        cols = unit_cols * std::max<std::int64_t>(1, most / unit_cols);
        down = (matrix_rows + rows - 1) / rows;
        across = (matrix_cols + cols - 1) / cols;
    }
};

}  // namespace subbyte::kernels
