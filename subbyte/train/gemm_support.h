// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "subbyte/formats/spec.h"
#include "subbyte/kernels/kernel_list.h"
#include "subbyte/plan/recipe.h"

namespace subbyte::train {

// How this machine would carry out D (m x n) = A (m x k) * B (n x k)^T.
struct GemmSupport {
    std::vector<kernels::Candidate>
        candidates;       // every kernel with its reason, LibTorch's included
    std::string kernel;   // the chosen one
    bool native = false;  // multiplies the codes as they are; false: decodes them first (emulated)
};

GemmSupport gemm_support(const formats::QuantSpec& a, const formats::QuantSpec& b, std::int64_t m,
                         std::int64_t n, std::int64_t k);

// The same for the three GEMMs of a linear layer (tokens x in -> out), indexed by plan::Slot.
std::array<GemmSupport, 3> recipe_support(const plan::Recipe& recipe, std::int64_t tokens,
                                          std::int64_t in_features, std::int64_t out_features);

}  // namespace subbyte::train
