// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>

#include "subbyte/bench/report.h"
#include "subbyte/ops/gaussian.h"
#include "subbyte/ops/linear.h"
#include "subbyte/plan/recipe.h"

namespace subbyte::bench {

nlohmann::json bench_layer(const std::string& recipe, const LayerShape& shape,
                           const Effort& effort) {
    check_sizes({{"T", shape.tokens}, {"K", shape.in}, {"N", shape.out}});
    ops::LinearContext context;
    context.recipe = std::make_shared<const plan::Recipe>(plan::find_recipe(recipe));
    const ThreadScope threads(effort.threads);

    const at::Tensor x = ops::gaussian({shape.tokens, shape.in}, {1, 0, 0, 0});
    const at::Tensor w = ops::gaussian({shape.out, shape.in}, {1, 0, 1, 0}).mul_(0.02);
    const at::Tensor g = ops::gaussian({shape.tokens, shape.out}, {1, 0, 2, 0}).mul_(1e-3);
    const at::Tensor g16 = g.to(at::kBFloat16);
    at::Tensor x_leaf = x.clone().requires_grad_(true), w_leaf = w.clone().requires_grad_(true);
    const auto ours = [&] {
        ops::linear(x_leaf, w_leaf, context).backward(g);
        x_leaf.mutable_grad() = at::Tensor();
        w_leaf.mutable_grad() = at::Tensor();
    };
    // The bare products, without autograd's cost.
    const auto fp32 = [&] {
        const at::NoGradGuard no_grad;
        at::mm(x, w.t());
        at::mm(g, w);
        at::mm(g.t(), x);
    };
    const auto bf16 = [&] {
        const at::NoGradGuard no_grad;
        const at::Tensor x16 = x.to(at::kBFloat16), w16 = w.to(at::kBFloat16);
        at::mm(x16, w16.t());
        at::mm(g16, w16);
        at::mm(g16.t(), x16).to(at::kFloat);
    };
    nlohmann::json json =
        report("layer", contest({{"subbyte", ours}, {"fp32", fp32}, {"bf16", bf16}},
                                effort.least_rounds, effort.seconds));
    json["recipe"] = recipe;
    json["shape"] = {shape.tokens, shape.in, shape.out};
    json["gflops"] = 6e-9 * static_cast<double>(shape.tokens) * static_cast<double>(shape.in) *
                     static_cast<double>(shape.out) / json["seconds"].get<double>();
    return json;
}

}  // namespace subbyte::bench
