// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "subbyte/formats/quantize_reference.h"
#include "subbyte/kernels/quantize/quantize.h"
#include "subbyte/kernels/quantize/row_ops.h"

namespace subbyte::kernels {

constexpr std::int64_t kTaskElements = 64 * 1024;  // enough work to pay for a thread

// Quantisation and its inverse with the inner loops of one instruction set: the bits of
// formats::quantize_reference and dequantize_reference for every spec, any strides and any thread
// count. The matrix is cut into chunks of whole tiles that fit the cache; transposed sources are
// turned over chunk by chunk. Tiles too large for a chunk get their amax in a pass of its own.
void quantize_tiled(const RowOps& ops, const formats::MatrixView& source,
                    const QuantizeTarget& target);

// A copy of the source and one of its transpose from one pass: the bits of two calls.
void quantize_both_tiled(const RowOps& ops, const formats::MatrixView& source,
                         const QuantizeTarget& rows, const QuantizeTarget& columns);

// quantize_computed() with these inner loops; false: the tiles are too large for pieces.
bool quantize_computed_tiled(const RowOps& ops, const ComputedMatrices& source,
                             std::span<const QuantizeTargets> targets);

void dequantize_tiled(const RowOps& ops, const formats::PackedView& packed,
                      const formats::QuantSpec& spec, std::int64_t rows, std::int64_t cols,
                      float* out);

}  // namespace subbyte::kernels
