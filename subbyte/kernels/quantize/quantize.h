// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "subbyte/formats/quantize_reference.h"
#include "subbyte/kernels/kernel_list.h"

namespace subbyte::kernels {

// Ordered list of quantise kernels (newest instruction set first, the reference last). All of them
// give the bits of formats::quantize_reference, for any thread count. Error kUsage for negative
// sizes, missing pointers, or 2^51 elements and more (the noise of stochastic rounding is addressed
// by element).
void quantize(const formats::MatrixView& source, const formats::QuantSpec& spec,
              const NoiseAddress& noise, const formats::PackedView& packed);

// A packed copy to be made of a matrix.
struct QuantizeTarget {
    formats::QuantSpec spec;
    NoiseAddress noise;
    formats::PackedView packed;
};

// What a matrix is in two GEMMs that contract it along different axes: `rows` becomes a copy of the
// matrix, `columns` one of its transpose. One pass over the source; the bits and errors of two
// calls of quantize().
void quantize_both(const formats::MatrixView& source, const QuantizeTarget& rows,
                   const QuantizeTarget& columns);
inline formats::MatrixView transposed(const formats::MatrixView& m) {
    return {m.data, m.cols, m.rows, m.col_stride, m.row_stride};
}

// One or two matrices that are computed where they are quantised and never stored as a whole.
struct ComputedMatrices {
    std::int64_t rows = 0, cols = 0;

    // Writes rows [row0, row1) x columns [col0, col1) of each matrix to out[0], out[1], rows
    // `stride` apart. Called from several threads, for some pieces twice; the values must not
    // depend on the cut.
    struct Piece {
        std::int64_t row0, row1, col0, col1;
    };
    std::function<void(const Piece& piece, float* const out[], std::int64_t stride)> compute;
};

struct QuantizeTargets {
    QuantizeTarget rows, columns;
};

// The bits and errors of quantize_both() on each matrix; `targets` says how many there are.
void quantize_computed(const ComputedMatrices& source, std::span<const QuantizeTargets> targets);

// Same for the inverse. `out` is rows x cols, contiguous.
void dequantize(const formats::PackedView& packed, const formats::QuantSpec& spec,
                std::int64_t rows, std::int64_t cols, float* out);

// Which kernels exist for this spec, which one runs here, and why the others do not.
std::vector<Candidate> explain_quantize(const formats::QuantSpec& spec, bool transposed_source);
std::vector<Candidate> explain_dequantize(const formats::QuantSpec& spec);

}  // namespace subbyte::kernels
