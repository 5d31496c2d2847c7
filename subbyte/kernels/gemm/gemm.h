// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "subbyte/formats/quantize_reference.h"
#include "subbyte/kernels/kernel_list.h"

namespace subbyte::kernels {

// D (M x N, float32, contiguous) = A (M x K) * B (N x K)^T, both operands packed along K.
struct GemmProblem {
    std::int64_t m = 0, n = 0, k = 0;
    formats::QuantSpec a, b;
    bool equal_signs = true;  // of fresh rotations on both sides; gemm() looks for itself
};

struct GemmOperands {
    formats::PackedView a, b;
    float* d = nullptr;
    std::string_view op = "gemm";  // what the log calls it
    int repeats = 1;   // of the multiplication of packed panels: how long it takes alone (bench)
    bool add = false;  // D += A * B^T: the bits of a product beside D that is added to it
};

// Dense float32 D = A * B^T on decoded operands, handed in by the layer above (LibTorch's matmul).
using DenseMatmul = std::function<void(std::int64_t m, std::int64_t n, std::int64_t k,
                                       const float* a, const float* b, float* d)>;
void set_dense_matmul(DenseMatmul matmul);

// How a GEMM was carried out.
struct GemmRun {
    std::string_view kernel;  // name in the list
    bool native =
        false;  // true: computed on the packed codes; false: decoded, then multiplied densely
};

// Walks the ordered list and runs the first kernel that accepts. Entries of this list, with the
// elements they take in any pair and what bounds the error, in units of 2^-24 * sum |a * b|:
//   avx512_vnni   int8, mxint8, int4, e2m1, e2m3       blocks + 6
//   avx512_bf16   those, e4m3, e5m2, e3m4, e3m2, bf16  K + blocks + 6
//   avx2_maddubs  int4, e2m1                           blocks + 6; the bits of avx512_vnni
//   avx2_maddwd   those of avx512_vnni                 blocks + 6; the bits of avx512_vnni
//   avx2_fma      those of avx512_bf16                 K + blocks + 6
//   decode_dense  everything: decodes both operands and calls the dense matmul (emulated)
//   reference     everything: double-precision triple loop over decoded operands
// The first five multiply the packed codes. Blocks are K / 128 where all tiles are multiples of 128
// columns, else K / 64, K / 32 or K / 16; other tiles are refused. What a tile scale that is not
// finite touches is not finite. The order of summation is fixed: the same bits for any number of
// threads.
// Each run is counted in gemm_report(), and logged with SUBBYTE_VERBOSE=gemm. Error kUsage for
// negative sizes or missing pointers.
GemmRun gemm(const GemmProblem& problem, const GemmOperands& operands);

std::vector<Candidate> explain_gemm(const GemmProblem& problem);

}  // namespace subbyte::kernels
