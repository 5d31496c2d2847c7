// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/dense_matmul.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <mutex>

#include "subbyte/core/clock.h"
#include "subbyte/kernels/gemm/gemm.h"
#include "subbyte/kernels/gemm/gemm_report.h"

namespace subbyte::ops {
namespace {

at::Tensor from_floats(const float* data, std::int64_t rows, std::int64_t cols) {
    // from_blob wants a mutable pointer; mm only reads its operands.
    return at::from_blob(const_cast<float*>(data), {rows, cols}, at::kFloat);
}

}  // namespace

at::Tensor dense_matmul(const at::Tensor& a, const at::Tensor& b, std::string_view op) {
    static const formats::QuantSpec fp32 = formats::parse_spec("fp32");
    constexpr std::string_view kKernel = "libtorch_fp32";
    kernels::count_gemm(fp32, fp32, {kKernel, true},
                        static_cast<double>(a.size(0)) * static_cast<double>(a.size(1)) *
                            static_cast<double>(b.size(0)));
    const Stopwatch watch;
    at::Tensor d = at::mm(a, b.t());
    if (kernels::gemm_is_verbose()) {
        kernels::log_gemm(op, {a.size(0), b.size(0), a.size(1), fp32, fp32}, kKernel, {},
                          watch.seconds());
    }
    return d;
}

void install_dense_matmul() {
    static std::once_flag once;
    std::call_once(once, [] {
        kernels::set_dense_matmul([](std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                                     const float* b, float* d) {
            at::Tensor out = from_floats(d, m, n);
            at::mm_out(out, from_floats(a, m, k), from_floats(b, n, k).t());
        });
    });
}

}  // namespace subbyte::ops
