// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/tile.h"

#include <gtest/gtest.h>

#include <set>

namespace subbyte::formats {
namespace {

TEST(TileGrid, RaggedEdgesAreTilesOfTheirOwn) {
    const TileGrid grid(Tile::block(2, 16), 5, 35);
    EXPECT_EQ(grid.grid_rows, 3);
    EXPECT_EQ(grid.grid_cols, 3);
    EXPECT_EQ(grid.count(), 9);
    EXPECT_EQ(grid.index(0, 0), 0);
    EXPECT_EQ(grid.index(1, 15), 0);
    EXPECT_EQ(grid.index(1, 16), 1);
    EXPECT_EQ(grid.index(2, 0), 3);
    EXPECT_EQ(grid.index(4, 34), 8);
}

TEST(TileGrid, NamedTilesFollowTheMatrix) {
    EXPECT_EQ(TileGrid(Tile::tensor(), 5, 35).count(), 1);
    EXPECT_EQ(TileGrid(Tile::row(), 5, 35).count(), 5);
    EXPECT_EQ(TileGrid(Tile::row(), 5, 35).index(3, 34), 3);
    EXPECT_EQ(TileGrid(Tile::block(128, 128), 5, 35).count(), 1);
}

TEST(TileGrid, EmptyMatricesHaveNoTiles) {
    for (const Tile& tile : {Tile::tensor(), Tile::row(), Tile::block(1, 128)}) {
        EXPECT_EQ(TileGrid(tile, 0, 7).count(), 0);
        EXPECT_EQ(TileGrid(tile, 7, 0).count(), 0);
    }
}

TEST(TileGrid, EveryIndexIsUsedAndNoneBeyond) {
    for (std::int64_t rows : {1, 2, 7}) {
        for (std::int64_t cols : {1, 16, 33}) {
            const TileGrid grid(Tile::block(3, 16), rows, cols);
            std::set<std::int64_t> seen;
            for (std::int64_t r = 0; r < rows; ++r) {
                for (std::int64_t c = 0; c < cols; ++c) seen.insert(grid.index(r, c));
            }
            EXPECT_EQ(static_cast<std::int64_t>(seen.size()), grid.count());
            EXPECT_EQ(*seen.rbegin(), grid.count() - 1);
        }
    }
}

TEST(Tile, SquareTilesAreTransposable) {
    EXPECT_TRUE(Tile::tensor().transposable());
    EXPECT_TRUE(Tile::block(128, 128).transposable());
    EXPECT_FALSE(Tile::block(1, 128).transposable());
    EXPECT_FALSE(Tile::row().transposable());
}

}  // namespace
}  // namespace subbyte::formats
