// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// GEMMs on packed codes. Both operands are decoded into panels: a few rows each, in the number
// format that the dot product of the processor multiplies ("carrier": int8, int16, bfloat16,
// float), in the order in which it reads them. A panel of A times a panel of B is one tile of D,
// summed block by block along K: within a block of codes that share their scales on both sides
// the codes are multiplied as they are, then the sum is scaled and added to D in float32. The
// order along K is fixed, so the result does not depend on the number of threads.
//
// This header and panels.cpp know no instruction set; a PanelKernel brings the inner loops.
#pragma once

#include <algorithm>
#include <cstdint>

#include "subbyte/kernels/gemm/code_values.h"
#include "subbyte/kernels/gemm/gemm.h"

namespace subbyte::kernels {

// Panels hold K in whole chunks of this many codes, zeros behind the end.
inline constexpr std::int64_t kChunk = 128;

// One row of codes, and where the carriers get them multiplied in, its E8M0 scales.
struct CodeRow {
    const std::uint8_t* codes;
    const std::uint8_t* powers;  // one per `power_cols` codes
    std::int64_t power_cols;

    std::uint8_t power(std::int64_t col) const { return powers[col / power_cols]; }
};

// The codes of one operand.
struct CodeRows {
    const std::uint8_t* codes;
    std::int64_t stride;  // bytes per row
    std::int64_t rows, k;
    const formats::ElementFormat* element;
    const CodeValues* values;  // null for 16-bit codes
    const formats::TileGrid* grid;
    const std::uint8_t* powers;  // E8M0 scales that `pack` multiplies in; null: none

    std::int64_t rows_from(std::int64_t first, std::int64_t most) const {
        return std::clamp<std::int64_t>(rows - first, 0, most);
    }
    CodeRow row(std::int64_t r) const {
        if (powers == nullptr) return {codes + r * stride, nullptr, 0};
        return {codes + r * stride, powers + grid->index(r, 0), grid->tile_cols};
    }
};

// How one side becomes panels.
struct PanelSide {
    int rows;   // per panel
    bool sums;  // wants `sums`: a correction for an offset that the other side's carriers have

    // Decodes rows [first, first + rows) to `data` (rows * K in chunks carriers) and, where
    // wanted, writes one sum per block and row ([block][row]). Rows behind the end become zeros.
    void (*pack)(const CodeRows& source, std::int64_t first, int block, std::uint8_t* data,
                 std::int32_t* sums);
};

// Tiles of D side by side: (panel of A) * (panels of B)^T over a slice of K.
struct TileArgs {
    const std::uint8_t *a, *b;         // carriers
    std::int64_t a_rows[6];            // in place: bytes from `a` to each row of the panel,
    std::int64_t a_next;               // and to the panel that is multiplied next; 0: none
    const float *a_scales, *b_scales;  // [block][row of the panel]
    const std::int32_t *a_sums, *b_sums;
    std::int64_t k;  // codes of the slice; a multiple of kChunk but for the last slice
    float* d;        // rows of A's panel x rows of B's panels, row stride d_stride
    std::int64_t d_stride;
    bool accumulate;  // begin with what D holds (later slices)
    float factor;     // multiplies the finished tiles
    bool add;         // the finished tiles are added to what D holds
    std::int64_t tiles;
    std::int64_t b_bytes, b_blocks;  // from one panel of B to the next: carriers, scales and sums

    // The tiles behind the first `cols` columns of D.
    void next(int cols) {
        b += b_bytes;
        b_scales += b_blocks;
        if (b_sums != nullptr) b_sums += b_blocks;
        d += cols;
    }
};

// What is known about the scales of all blocks of a product.
enum class TileScales {
    kAny,
    kPowers,  // powers of two, the product of which is the sum of their bits: b_scales holds the
              // bits less those of 1
    kEvenB,   // the rows of a panel of B have the same scale
    kOnes     // all are 1
};

struct PanelKernel {
    PanelSide a, b;
    int carrier_bytes;
    int block;  // codes per scale, divides kChunk
    int slice;  // codes of K per pass over D: what stays in the first cache (measured)
    // By TileScales. Null: kAny does it, with the same bits but for kPowers, which is not asked
    // for.
    void (*multiply[4])(const TileArgs& tiles);
    // kOnes with codes of A where they lie, if these are carriers. Null: no such variant.
    void (*multiply_in_place)(const TileArgs& tiles) = nullptr;
};

struct PanelOptions {
    float factor = 1.0f;                  // multiplies the result
    bool fold_a = false, fold_b = false;  // `pack` multiplies the scales in (power_scales.h)
    bool powers = false;                  // TileScales::kPowers
};

// Runs the whole GEMM. K > 0.
void run_panels(const PanelKernel& kernel, const PanelOptions& options, const GemmProblem& problem,
                const GemmOperands& operands);

}  // namespace subbyte::kernels
