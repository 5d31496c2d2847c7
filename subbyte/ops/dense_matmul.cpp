// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/dense_matmul.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <mutex>

#include "subbyte/core/cpu.h"
#include "subbyte/kernels/gemm/gemm.h"
#include "subbyte/kernels/gemm/gemm_report.h"

namespace subbyte::ops {
namespace {

void record(std::string_view kernel, const at::Tensor& a, const at::Tensor& b, bool native) {
    const auto spec = [](const at::Tensor& t) {
        return formats::parse_spec(t.scalar_type() == at::kBFloat16 ? "bf16" : "fp32");
    };
    kernels::count_gemm(spec(a), spec(b), {kernel, native},
                        static_cast<double>(a.size(0)) * static_cast<double>(a.size(1)) *
                            static_cast<double>(b.size(0)));
}

}  // namespace

bool has_bf16_dot() { return max_isa() >= Isa::kAvx512; }

at::Tensor dense_matmul(const at::Tensor& a, const at::Tensor& b) {
    // Without a BF16 dot product LibTorch's BF16 matmul is a slow fallback loop.
    if (a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16 && has_bf16_dot()) {
        record("libtorch_bf16", a, b, true);
        return at::mm(a, b.t()).to(at::kFloat);
    }
    const bool widened = a.scalar_type() != at::kFloat || b.scalar_type() != at::kFloat;
    record("libtorch_fp32", a, b, !widened);
    return at::mm(a.to(at::kFloat), b.to(at::kFloat).t());
}

std::vector<kernels::Candidate> explain_dense_matmul(const formats::QuantSpec& a,
                                                     const formats::QuantSpec& b) {
    const bool dense = !a.is_scaled() && !b.is_scaled();
    const bool bf16 = dense && !a.is_fp32() && !b.is_fp32();
    kernels::Candidate fast{"libtorch_bf16", Isa::kAvx512, "", false};
    if (!bf16) {
        fast.refusal = "operands are not both bf16";
    } else if (!has_bf16_dot()) {
        fast.refusal = "no BF16 dot product here (AVX-512 BF16 needed)";
    }
    kernels::Candidate wide{"libtorch_fp32", Isa::kReference, "", false};
    if (!dense) wide.refusal = "an operand carries scales";
    fast.chosen = fast.refusal.empty();
    wide.chosen = !fast.chosen && wide.refusal.empty();
    return {fast, wide};
}

void install_dense_matmul() {
    static std::once_flag once;
    std::call_once(once, [] {
        kernels::set_dense_matmul([](std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                                     const float* b, float* d) {
            const auto tensor = [](const float* data, std::int64_t rows, std::int64_t cols) {
                // from_blob wants a mutable pointer; mm only reads its operands.
                return at::from_blob(const_cast<float*>(data), {rows, cols}, at::kFloat);
            };
            at::Tensor out = tensor(d, m, n);
            at::mm_out(out, tensor(a, m, k), tensor(b, n, k).t());
        });
    });
}

}  // namespace subbyte::ops
