// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "subbyte/formats/spec.h"

namespace subbyte::train {

// What quantisation did to one tensor, or to all of them together.
struct TensorReport {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
    std::string skipped;  // why it was left out; empty: it was quantised
    std::int64_t elements = 0, nonfinite = 0;
    double relative_error = 0;   // |decoded - source| / |source|, Frobenius; NaN and Inf left out
    double sqnr_db = 0;          // -20 log10(relative_error); +Inf when nothing was lost
    double saturated_share = 0;  // elements cut off at the largest code of their tile
    double underflow_share = 0;  // nonzero elements that became zero
    double bits_per_value = 0;   // codes, scales and second level
};

struct QuantizeReport {
    std::vector<TensorReport> tensors;  // in name order, skipped ones too
    TensorReport total;
};

// Quantises every floating tensor of `in` (.safetensors, or .npy with one tensor named "data") and
// writes for each tensor NAME to `out` (.safetensors):
//   NAME.codes          U8 [rows, bytes]: a stream of bits per row (formats/code_stream.h); 4-bit
//                       codes two per byte, first element in the low nibble
//   NAME.scales         per tile, row-major over the tile grid: F32, or U8 codes of the others
//   NAME.global_scale   F32, where the spec has a second level: a scalar, or [grid rows, grid cols]
//   NAME.signs          U8 [16], the sign bits of a rotation with fresh signs
//   NAME.dequantized    F32 in the tensor's shape
// Tensors are seen as rows x last dimension; 1-D as one row, a scalar as 1 x 1. Other dtypes than
// F16, BF16, F32, F64 and FP8 are skipped and reported. The noise of stochastic rounding has the
// address (seed, step 0, layer = position of the tensor in name order, role 0). Error kData: files;
// `out` appears as a whole or not at all.
QuantizeReport quantize_file(const std::filesystem::path& in, const formats::QuantSpec& spec,
                             const std::filesystem::path& out, std::uint64_t seed = 0);

// What each spec would do to every floating tensor of `in`, which may also be a model folder or
// checkpoint: one report per spec, with the same noise as above. One tensor is in memory at a time;
// nothing is written.
std::vector<QuantizeReport> compare_specs(const std::filesystem::path& in,
                                          const std::vector<formats::QuantSpec>& specs,
                                          std::uint64_t seed = 0);

}  // namespace subbyte::train
