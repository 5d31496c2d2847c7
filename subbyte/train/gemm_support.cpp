// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/gemm_support.h"

#include "subbyte/kernels/gemm/gemm.h"
#include "subbyte/ops/dense_matmul.h"

namespace subbyte::train {
namespace {

// What takes FP32 operands, alone or beside others, before the list of kernels/ is asked.
kernels::Candidate libtorch(const formats::QuantSpec& a, const formats::QuantSpec& b) {
    kernels::Candidate candidate{"libtorch_fp32", Isa::kReference, "", false};
    candidate.chosen = a.is_fp32() || b.is_fp32();
    if (!candidate.chosen) candidate.refusal = "no operand is fp32";
    return candidate;
}

}  // namespace

GemmSupport gemm_support(const formats::QuantSpec& a, const formats::QuantSpec& b, std::int64_t m,
                         std::int64_t n, std::int64_t k) {
    ops::install_dense_matmul();
    GemmSupport support;
    support.candidates.push_back(libtorch(a, b));
    if (support.candidates[0].chosen) {
        support.kernel = support.candidates[0].kernel;
        support.native = a.is_fp32() && b.is_fp32();
        return support;
    }
    for (const kernels::Candidate& candidate : kernels::explain_gemm({m, n, k, a, b})) {
        support.candidates.push_back(candidate);
        if (!candidate.chosen) continue;
        support.kernel = candidate.kernel;
        support.native = candidate.kernel != "decode_dense" && candidate.kernel != "reference";
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
