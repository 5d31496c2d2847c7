// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/gemm_support.h"

#include <algorithm>

#include "subbyte/kernels/gemm/gemm.h"
#include "subbyte/ops/dense_matmul.h"

namespace subbyte::train {
namespace {

// The kernels that decode before they multiply; libtorch_fp32 does so when an operand is not FP32.
bool decodes_first(const std::string& kernel, const formats::QuantSpec& a,
                   const formats::QuantSpec& b) {
    return kernel == "decode_dense" || kernel == "reference" ||
           (kernel == "libtorch_fp32" && !(a.is_fp32() && b.is_fp32()));
}

}  // namespace

GemmSupport gemm_support(const formats::QuantSpec& a, const formats::QuantSpec& b, std::int64_t m,
                         std::int64_t n, std::int64_t k) {
    ops::install_dense_matmul();
    GemmSupport support;
    support.candidates = ops::explain_dense_matmul(a, b);
    const auto chosen = [&] {
        return std::find_if(support.candidates.begin(), support.candidates.end(),
                            [](const kernels::Candidate& c) { return c.chosen; });
    };
    const bool dense = chosen() != support.candidates.end();
    for (kernels::Candidate candidate : kernels::explain_gemm({m, n, k, a, b})) {
        // The list of kernels/ is asked only when LibTorch does not take the pair.
        if (dense) candidate.chosen = false;
        support.candidates.push_back(std::move(candidate));
    }
    if (const auto found = chosen(); found != support.candidates.end()) {
        support.kernel = found->kernel;
        support.native = !decodes_first(support.kernel, a, b);
    }
    return support;
}

std::array<GemmSupport, 3> recipe_support(const plan::Recipe& recipe, std::int64_t tokens,
                                          std::int64_t in_features, std::int64_t out_features) {
    const auto slot = [&](plan::Slot which, std::int64_t m, std::int64_t n, std::int64_t k) {
        return gemm_support(recipe[which].a, recipe[which].b, m, n, k);
    };
    return {slot(plan::Slot::kFprop, tokens, out_features, in_features),
            slot(plan::Slot::kDgrad, tokens, in_features, out_features),
            slot(plan::Slot::kWgrad, out_features, in_features, tokens)};
}

}  // namespace subbyte::train
