// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/gemm/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "subbyte/core/aligned_buffer.h"
#include "subbyte/core/clock.h"
#include "subbyte/core/error.h"
#include "subbyte/core/parallel.h"
#include "subbyte/formats/hadamard.h"
#include "subbyte/kernels/gemm/gemm_report.h"
#include "subbyte/kernels/gemm/kernels.h"
#include "subbyte/kernels/gemm/pair_rules.h"
#include "subbyte/kernels/gemm/power_scales.h"
#include "subbyte/kernels/quantize/quantize.h"

namespace subbyte::kernels {
namespace {

using formats::PackedView;
using formats::QuantSpec;

DenseMatmul& dense_matmul() {
    static DenseMatmul matmul;
    return matmul;
}

// The operand as dense floats: in place when it is not quantised, else decoded into `buffer`.
const float* decoded(const PackedView& operand, const QuantSpec& spec, std::int64_t rows,
                     std::int64_t cols, AlignedBuffer<float>& buffer) {
    if (spec.is_fp32()) return reinterpret_cast<const float*>(operand.codes);
    float* const values = buffer.reserve(static_cast<std::size_t>(rows * cols));
    dequantize(operand, spec, rows, cols, values);
    return values;
}

void run_decode_dense(const GemmProblem& p, const GemmOperands& operands) {
    thread_local AlignedBuffer<float> a_buffer, b_buffer;
    const float* const a = decoded(operands.a, p.a, p.m, p.k, a_buffer);
    const float* const b = decoded(operands.b, p.b, p.n, p.k, b_buffer);
    if (!operands.add) return dense_matmul()(p.m, p.n, p.k, a, b, operands.d);
    thread_local AlignedBuffer<float> product_buffer;
    float* const product = product_buffer.reserve(static_cast<std::size_t>(p.m * p.n));
    dense_matmul()(p.m, p.n, p.k, a, b, product);
    for (std::int64_t i = 0; i < p.m * p.n; ++i) operands.d[i] += product[i];
}

void run_reference(const GemmProblem& p, const GemmOperands& operands) {
    thread_local AlignedBuffer<float> a_buffer, b_buffer;
    float* const a = a_buffer.reserve(static_cast<std::size_t>(p.m * p.k));
    float* const b = b_buffer.reserve(static_cast<std::size_t>(p.n * p.k));
    formats::dequantize_reference(operands.a, p.a, p.m, p.k, a);
    formats::dequantize_reference(operands.b, p.b, p.n, p.k, b);
    float* const d = operands.d;
    parallel_for(p.m, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            for (std::int64_t j = 0; j < p.n; ++j) {
                double sum = 0.0;
                for (std::int64_t l = 0; l < p.k; ++l) {
                    sum +=
                        static_cast<double>(a[i * p.k + l]) * static_cast<double>(b[j * p.k + l]);
                }
                const auto value = static_cast<float>(sum);
                float& target = d[i * p.n + j];
                target = operands.add ? target + value : value;
            }
        }
    });
}

// The integer kernels multiply E2M1 doubled and E2M3 times 8.
template <const PanelKernel& (*kPanels)(int)>
void run_integers(const GemmProblem& p, const GemmOperands& operands) {
    const PanelKernel& kernel = kPanels(scale_block(p));
    PanelOptions options{.factor = integer_factor(p)};
    options.powers = kernel.multiply[static_cast<int>(TileScales::kPowers)] != nullptr &&
                     powers_in_range(operands.a, p.a, p.m, p.k, false) &&
                     powers_in_range(operands.b, p.b, p.n, p.k, false);
    run_panels(kernel, options, p, operands);
}

// Power-of-two scales go into the decoded values where these stay far from the limits of float32.
template <const PanelKernel& (*kPanels)(int)>
void run_folded(const GemmProblem& p, const GemmOperands& operands) {
    PanelOptions options{.factor = float_factor(p)};
    options.fold_a = powers_in_range(operands.a, p.a, p.m, p.k, true);
    options.fold_b = powers_in_range(operands.b, p.b, p.n, p.k, true);
    GemmProblem rest = p;  // with the tiles that still cut K
    if (options.fold_a) rest.a.tile = formats::Tile::row();
    if (options.fold_b) rest.b.tile = formats::Tile::row();
    run_panels(kPanels(scale_block(rest)), options, p, operands);
}

Refusal refuse_nibbles(const GemmProblem& p) { return refuse_pair(p, {"e2m1", "int4"}); }

Refusal refuse_integers(const GemmProblem& p) {
    return refuse_pair(p, {"e2m1", "e2m3", "int4", "int8", "mxint8"});
}

Refusal refuse_floats(const GemmProblem& p) {
    return refuse_pair(
        p, {"e4m3", "e5m2", "e3m4", "e2m3", "e3m2", "e2m1", "int4", "int8", "mxint8", "bf16"});
}

Refusal refuse_bf16(const GemmProblem& p) {
    if (!has_bf16_dot()) return "needs the AVX-512 BF16 dot product";
    return refuse_floats(p);
}

Refusal refuse_decode_dense(const GemmProblem&) {
    return dense_matmul() ? "" : "no dense matmul is installed (set_dense_matmul)";
}

Refusal accept_any(const GemmProblem&) { return {}; }

using GemmKernel = Kernel<GemmProblem, void (*)(const GemmProblem&, const GemmOperands&)>;

constexpr std::array kKernels{
    GemmKernel{"avx512_vnni", Isa::kAvx512, refuse_integers, run_integers<avx512_vnni_panels>},
    GemmKernel{"avx512_bf16", Isa::kAvx512, refuse_bf16, run_folded<avx512_bf16_panels>},
    GemmKernel{"avx2_maddubs", Isa::kAvx2, refuse_nibbles, run_integers<avx2_maddubs_panels>},
    GemmKernel{"avx2_maddwd", Isa::kAvx2, refuse_integers, run_integers<avx2_maddwd_panels>},
    GemmKernel{"avx2_fma", Isa::kAvx2, refuse_floats, run_folded<avx2_fma_panels>},
    GemmKernel{"decode_dense", Isa::kReference, refuse_decode_dense, run_decode_dense},
    GemmKernel{"reference", Isa::kReference, accept_any, run_reference},
};

// The entries that multiply the codes as they are stored.
bool is_native(std::string_view name) { return name != "decode_dense" && name != "reference"; }

std::span<const GemmKernel> kernels() { return kKernels; }

void check_operand(std::string_view name, const PackedView& view, const QuantSpec& spec) {
    const bool scales = spec.scale == formats::ScaleFormat::kFp32   ? view.scales_f32 != nullptr
                        : spec.scale == formats::ScaleFormat::kNone ? true
                                                                    : view.scale_codes != nullptr;
    if (view.codes == nullptr || !scales) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("gemm: operand {} ({}) has no {}", name, formats::to_string(spec),
                                view.codes == nullptr ? "codes" : "scales"));
    }
    if (spec.rotation.fresh && view.signs == nullptr) {
        throw Error(ErrorCode::kUsage, fmt::format("gemm: operand {} ({}) has no signs", name,
                                                   formats::to_string(spec)));
    }
}

void check(const GemmProblem& p, const GemmOperands& operands) {
    if (p.m < 0 || p.n < 0 || p.k < 0) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("gemm: negative size {} x {} x {}", p.m, p.n, p.k));
    }
    if (p.m == 0 || p.n == 0) return;
    if (operands.d == nullptr) throw Error(ErrorCode::kUsage, "gemm: the result has no memory");
    if (p.k == 0) return;
    check_operand("A", operands.a, p.a);
    check_operand("B", operands.b, p.b);
}

bool equal_signs(const GemmProblem& p, const GemmOperands& operands) {
    const std::uint32_t *const a = operands.a.signs, *const b = operands.b.signs;
    if (!p.a.rotation.fresh || !p.b.rotation.fresh || a == nullptr || b == nullptr) return true;
    return std::equal(a, a + std::tuple_size_v<formats::SignBits>, b);
}

}  // namespace

void set_dense_matmul(DenseMatmul matmul) { dense_matmul() = std::move(matmul); }

GemmRun gemm(const GemmProblem& given, const GemmOperands& operands) {
    check(given, operands);
    GemmProblem problem = given;
    problem.equal_signs = equal_signs(given, operands);
    const GemmKernel& kernel = choose("gemm", kernels(), problem);
    const GemmRun run{kernel.name, is_native(kernel.name)};
    const Stopwatch watch;
    if (problem.m > 0 && problem.n > 0) {
        if (problem.k > 0) {
            kernel.run(problem, operands);
        } else if (!operands.add) {
            std::fill_n(operands.d, problem.m * problem.n, 0.0f);
        }
    }
    count_gemm(problem.a, problem.b, run,
               static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                   static_cast<double>(problem.k));
    if (gemm_is_verbose()) {
        log_gemm(operands.op, problem, run.kernel, explain_gemm(problem), watch.seconds());
    }
    return run;
}

std::vector<Candidate> explain_gemm(const GemmProblem& problem) {
    return explain("gemm", kernels(), problem);
}

}  // namespace subbyte::kernels
