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
};

struct GemmOperands {
    formats::PackedView a, b;
    float* d = nullptr;
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

// Walks the ordered list and runs the first kernel that accepts. Entries of this list:
//   decode_dense  decodes both operands and calls the dense matmul (emulated)
//   reference     double-precision triple loop over decoded operands, always accepts
// Each run is counted in gemm_report(). Error kUsage for negative sizes or missing pointers.
GemmRun gemm(const GemmProblem& problem, const GemmOperands& operands);

std::vector<Candidate> explain_gemm(const GemmProblem& problem);

}  // namespace subbyte::kernels
