// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "subbyte/core/aligned_buffer.h"
#include "subbyte/kernels/gemm/panel_scales.h"
#include "subbyte/kernels/gemm/panels.h"

namespace subbyte::kernels {

// Some panels of one side, numbered from `first` on.
struct Panels {
    std::int64_t first, count;
    std::int64_t chunks, blocks;  // of one panel
    std::int64_t bytes;           // of one panel
    bool in_place;                // data are the codes themselves, rows `row_bytes` apart
    std::int64_t row_bytes;
    std::uint8_t* data;
    float* scales;
    std::int32_t* sums;
};

struct PanelScratch {
    AlignedBuffer<std::uint8_t> data;
    AlignedBuffer<float> scales;
    AlignedBuffer<std::int32_t> sums;
};

// Turns an operand into panels.
class PanelPacker {
public:
    PanelPacker(const PanelKernel& kernel, const PanelSide& side, const formats::PackedView& view,
                const formats::QuantSpec& spec, ScaleForm form, std::int64_t rows, std::int64_t k)
        : side_(side),
          block_(kernel.block),
          grid_(spec.tile, rows, k),
          source_{view.codes,   formats::row_bytes(spec, k),
                  rows,         k,
                  spec.element, spec.element->bits <= 8 ? &code_values(*spec.element) : nullptr,
                  &grid_,       form == ScaleForm::kFolded ? view.scale_codes : nullptr},
          scales_(view, spec, form, rows, k, kernel.block),
          count_((rows + side.rows - 1) / side.rows),
          chunks_((k + kChunk - 1) / kChunk),
          bytes_(chunks_ * kChunk * kernel.carrier_bytes * side.rows) {}

    // Codes that are carriers and end with a step of the kernel (8 codes) can be taken where they
    // lie: read more slowly, but not written once more.
    bool can_stay() const { return source_.element->bits == 16 && source_.k % 8 == 0; }
    void stay_in_place() { in_place_ = true; }

    std::int64_t count() const { return count_; }
    std::int64_t bytes() const { return bytes_; }  // of one panel
    std::int64_t chunks() const { return chunks_; }

    // Room for the panels [first, first + count) in `scratch`. Overwrites the ones before.
    Panels place(std::int64_t first, std::int64_t count, PanelScratch& scratch) const {
        Panels panels{};
        panels.first = first;
        panels.count = count;
        panels.chunks = chunks_;
        panels.blocks = chunks_ * (kChunk / block_) * side_.rows;
        panels.bytes = bytes_;
        const auto total = [&](std::int64_t each) {
            return static_cast<std::size_t>(count * each);
        };
        if (in_place_) {
            panels.in_place = true;
            panels.row_bytes = source_.stride;
            panels.bytes = side_.rows * source_.stride;
            panels.data = const_cast<std::uint8_t*>(source_.codes) + first * panels.bytes;
        } else {
            panels.data = scratch.data.reserve(total(panels.bytes));
        }
        panels.scales = scratch.scales.reserve(total(panels.blocks));
        if (side_.sums) panels.sums = scratch.sums.reserve(total(panels.blocks));
        return panels;
    }

    // Packs panels [begin, end), counted from the first of `panels`.
    void pack(const Panels& panels, std::int64_t begin, std::int64_t end) const {
        for (std::int64_t p = begin; p < end; ++p) {
            const std::int64_t row = (panels.first + p) * side_.rows;
            if (!in_place_) {
                side_.pack(source_, row, block_, panels.data + p * panels.bytes,
                           side_.sums ? panels.sums + p * panels.blocks : nullptr);
            }
            scales_.expand(row, source_.rows_from(row, side_.rows), side_.rows,
                           panels.scales + p * panels.blocks);
        }
    }

private:
    const PanelSide& side_;
    int block_;
    formats::TileGrid grid_;
    CodeRows source_;
    PanelScales scales_;
    bool in_place_ = false;
    std::int64_t count_, chunks_, bytes_;
};

}  // namespace subbyte::kernels
