// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <string_view>
#include <vector>

#include "subbyte/core/philox.h"
#include "subbyte/formats/quantize_reference.h"
#include "subbyte/kernels/gemm/gemm.h"
#include "subbyte/kernels/quantize/quantize.h"

namespace subbyte::ops {

// A GEMM operand as it is kept and saved: rows x cols, packed along cols (the contraction axis).
struct QuantizedTensor {
    formats::QuantSpec spec;
    std::int64_t rows = 0, cols = 0;
    at::Tensor
        codes;  // U8 [rows, row_bytes]; for fp32 / bf16 specs the FP32 / BF16 values, any strides
    at::Tensor scales;        // FP32 or U8 [grid rows, grid cols]; undefined without scales
    at::Tensor global_scale;  // FP32 scalar, or one per patch; undefined without a second level
    at::Tensor signs;         // U8 [16] of a rotation with fresh signs; undefined without one

    bool defined() const { return codes.defined(); }
    std::int64_t bytes() const;        // memory held
    formats::PackedView view() const;  // valid as long as this object
};

// Quantises a 2-D FP32 tensor (any strides, so a transposed view costs no copy). The fp32 spec
// keeps a reference to `x`. Error kUsage for other dtypes or ranks.
QuantizedTensor quantize(const at::Tensor& x, const formats::QuantSpec& spec,
                         const NoiseAddress& noise = {});

// What is wanted of a matrix for one GEMM.
struct QuantizedCopy {
    formats::QuantSpec spec;
    NoiseAddress noise;
};

struct QuantizedPair {
    QuantizedTensor rows, columns;
};

// x for the GEMM that contracts its rows and x^T for the one that contracts its columns, from one
// pass over x: the bits of two calls of quantize().
QuantizedPair quantize_both(const at::Tensor& x, const QuantizedCopy& rows,
                            const QuantizedCopy& columns);

// The same for one or two matrices that are computed where they are quantised and never stored
// (kernels/quantize/quantize.h). No fp32 specs.
struct QuantizedCopies {
    QuantizedCopy rows, columns;
};
std::vector<QuantizedPair> quantize_computed(const kernels::ComputedMatrices& x,
                                             std::initializer_list<QuantizedCopies> copies);

// FP32 [rows, cols].
at::Tensor dequantize(const QuantizedTensor& q);

// dequantize(quantize(x)): what x becomes. Any shape; the last axis is the contraction axis.
at::Tensor fake_quantize(const at::Tensor& x, const formats::QuantSpec& spec,
                         const NoiseAddress& noise = {});

// D = A * B^T in FP32 [a.rows, b.rows], through the ordered kernel list; the log calls it `op`.
// Error kUsage when a.cols
// != b.cols.
at::Tensor gemm(const QuantizedTensor& a, const QuantizedTensor& b, std::string_view op = "gemm");

// D += A * B^T, D contiguous: the bits of d.add_(gemm(a, b)), without that product in memory.
void add_gemm(const QuantizedTensor& a, const QuantizedTensor& b, at::Tensor& d,
              std::string_view op = "gemm");

}  // namespace subbyte::ops
