// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <vector>

#include "subbyte/bench/report.h"
#include "subbyte/core/clock.h"
#include "subbyte/kernels/gemm/gemm.h"
#include "subbyte/ops/gaussian.h"
#include "subbyte/ops/quantized_tensor.h"
#include "subbyte/plan/recipe.h"
#include "subbyte/train/gemm_support.h"

namespace subbyte::bench {
namespace {

// X and W of a layer in a recipe of this name; else the spec on both sides, W in square tiles.
plan::SlotRecipe operands(const std::string& a, const std::string& b) {
    if (b.empty()) {
        for (const std::string& name : plan::recipe_names()) {
            if (name == a) return plan::find_recipe(name)[plan::Slot::kFprop];
        }
    }
    plan::SlotRecipe pair{formats::parse_spec(a), formats::parse_spec(b.empty() ? a : b)};
    formats::Tile& tile = pair.b.tile;
    if (b.empty() && tile.rows == 1 && (tile.cols == 128 || tile.cols == 16)) tile.rows = tile.cols;
    return pair;
}

// Gop/s of the inner loop alone, on one tile whose panels stay in the first cache: what no shape
// can exceed on one thread. 0 when no kernel multiplies the codes.
double inner_loop_gflops(const formats::QuantSpec& a, const formats::QuantSpec& b) {
    constexpr std::int64_t kRows = 6, kCols = 32, kDepth = 512;  // a tile, or two of AVX2
    const kernels::GemmProblem problem{kRows, kCols, kDepth, a, b};
    const ops::QuantizedTensor x = ops::quantize(ops::gaussian({kRows, kDepth}, {1, 0, 0, 0}), a),
                               w = ops::quantize(ops::gaussian({kCols, kDepth}, {1, 0, 1, 0}), b);
    if (!train::gemm_support(a, b, kRows, kCols, kDepth).native) return 0;
    std::vector<float> d(kRows * kCols);
    kernels::GemmOperands operands{x.view(), w.view(), d.data()};
    operands.repeats = 20000;
    double best = 0;
    for (int round = 0; round < 5; ++round) {
        const Stopwatch watch;
        kernels::gemm(problem, operands);
        best = std::max(best, 2e-9 * kRows * kCols * kDepth * operands.repeats / watch.seconds());
    }
    return best;
}

}  // namespace

nlohmann::json bench_gemm(const std::string& a_spec, const std::string& b_spec,
                          const GemmShape& shape, const Effort& effort) {
    check_sizes({{"M", shape.m}, {"N", shape.n}, {"K", shape.k}});
    const auto [a, b] = operands(a_spec, b_spec);
    const at::NoGradGuard no_grad;
    const ThreadScope threads(effort.threads);

    const at::Tensor x = ops::gaussian({shape.m, shape.k}, {1, 0, 0, 0});
    const at::Tensor w = ops::gaussian({shape.n, shape.k}, {1, 0, 1, 0});
    const ops::QuantizedTensor qx = ops::quantize(x, a, {}), qw = ops::quantize(w, b, {});
    const at::Tensor x16 = x.to(at::kBFloat16), w16 = w.to(at::kBFloat16);
    nlohmann::json json = report("gemm", contest({{"subbyte", [&] { ops::gemm(qx, qw); }},
                                                  {"fp32", [&] { at::mm(x, w.t()); }},
                                                  {"bf16", [&] { at::mm(x16, w16.t()); }}},
                                                 effort.least_rounds, effort.seconds));
    json["a"] = formats::to_string(a);
    json["b"] = formats::to_string(b);
    json["shape"] = {shape.m, shape.n, shape.k};
    const double operations = 2e-9 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                              static_cast<double>(shape.k);
    json["gflops"] = operations / json["seconds"].get<double>();
    json["fp32_gflops"] = operations / json["fp32_seconds"].get<double>();
    json["bf16_gflops"] = operations / json["bf16_seconds"].get<double>();
    const double limit = inner_loop_gflops(a, b);
    if (limit > 0) {
        json["inner_loop_gflops"] = limit;
        json["of_inner_loop"] =
            json["gflops"].get<double>() / limit / static_cast<double>(at::get_num_threads());
    }
    json["kernel"] = train::gemm_support(a, b, shape.m, shape.n, shape.k).kernel;
    return json;
}

}  // namespace subbyte::bench
