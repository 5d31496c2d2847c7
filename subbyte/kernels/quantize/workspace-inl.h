// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of a thread that quantises.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "subbyte/core/aligned_buffer.h"
#include "subbyte/kernels/quantize/row_ops.h"

namespace subbyte::kernels {
namespace {

// Entries of tiles are read and written 16 at a time, from any tile on.
std::size_t tile_room(std::int64_t count) {
    return static_cast<std::size_t>((count + 15) / 16 * 16 + 16);
}

struct Workspace {
    AlignedBuffer<float> values, computed;
    AlignedBuffer<std::uint8_t> codes;
    AlignedBuffer<std::uint16_t> noise;
    AlignedBuffer<std::uint32_t> amax;
    AlignedBuffer<float> decoded;
    AlignedBuffer<std::uint8_t> packed;
    std::vector<double> errors;

    struct Factors {
        AlignedBuffer<float> scales;
        AlignedBuffer<Scaling> scalings;
        AlignedBuffer<std::uint8_t> codes;

        TileFactors reserve(std::int64_t count) {
            const std::size_t room = tile_room(count);
            float* const floats = scales.reserve(3 * room);
            return {floats, floats + room, floats + 2 * room, scalings.reserve(room),
                    codes.reserve(room)};
        }
    };
    Factors plain, raised;

    std::uint32_t* zero_amax(std::int64_t count) {
        const std::size_t room = tile_room(count);
        std::uint32_t* const tiles = amax.reserve(room);
        std::fill_n(tiles, room, 0u);
        return tiles;
    }
};

Workspace& workspace() {
    thread_local Workspace instance;
    return instance;
}

}  // namespace
}  // namespace subbyte::kernels
