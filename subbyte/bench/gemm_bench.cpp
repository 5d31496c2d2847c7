// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include "subbyte/bench/report.h"
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
    json["kernel"] = train::gemm_support(a, b, shape.m, shape.n, shape.k).kernel;
    return json;
}

}  // namespace subbyte::bench
