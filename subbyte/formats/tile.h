// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace subbyte::formats {

// The patch of a matrix that shares one scale. Columns are the contraction axis of the GEMM that
// consumes the operand. Tiles at the right and lower edge may be ragged.
struct Tile {
    enum class Kind { kTensor, kRow, kBlock };
    Kind kind = Kind::kTensor;
    std::int64_t rows = 0;  // kBlock only
    std::int64_t cols = 0;

    static Tile tensor() { return {}; }
    static Tile row() { return {Kind::kRow, 0, 0}; }
    static Tile block(std::int64_t rows, std::int64_t cols) { return {Kind::kBlock, rows, cols}; }
    friend bool operator==(const Tile&, const Tile&) = default;

    // True when transposing matrix and tile grid gives the same tiles (square blocks, tensor).
    bool transposable() const {
        return kind == Kind::kTensor || (kind == Kind::kBlock && rows == cols);
    }
};

// The tiling of a rows x cols matrix; scales are stored row-major over the grid.
struct TileGrid {
    std::int64_t tile_rows = 1, tile_cols = 1;  // size of a full tile
    std::int64_t grid_rows = 0, grid_cols = 0;  // number of tiles

    TileGrid(const Tile& tile, std::int64_t rows, std::int64_t cols) {
        tile_rows = tile.kind == Tile::Kind::kTensor ? rows
                    : tile.kind == Tile::Kind::kRow  ? 1
                                                     : tile.rows;
        tile_cols = tile.kind == Tile::Kind::kBlock ? tile.cols : cols;
        grid_rows = rows == 0 ? 0 : (rows + tile_rows - 1) / tile_rows;
        grid_cols = cols == 0 ? 0 : (cols + tile_cols - 1) / tile_cols;
    }
    std::int64_t count() const { return grid_rows * grid_cols; }
    std::int64_t index(std::int64_t row, std::int64_t col) const {
        return (row / tile_rows) * grid_cols + col / tile_cols;
    }
};

}  // namespace subbyte::formats
