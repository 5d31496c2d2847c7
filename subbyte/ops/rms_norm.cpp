// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/rms_norm.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <cmath>

#include "subbyte/core/error.h"
#include "subbyte/core/parallel.h"
#include "subbyte/ops/threads.h"

namespace subbyte::ops {
namespace {

// Rows that share one partial sum of the weight gradient: fixed, so that the order of the sum is
// too.
constexpr std::int64_t kRowsPerPartial = 64;

// Sum with eight running sums: a fixed order that vectorises.
template <typename Term>
float row_sum(std::int64_t count, Term term) {
    float sums[8] = {};
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        for (int j = 0; j < 8; ++j) sums[j] += term(i + j);
    }
    float total =
        ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for (; i < count; ++i) total += term(i);
    return total;
}

class RmsNormBackward : public torch::autograd::Node {
public:
    torch::autograd::SavedVariable x_saved, weight_saved;
    at::Tensor inverse_rms;

    std::string name() const override { return "SubbyteRmsNormBackward"; }
    void release_variables() override {
        x_saved.reset_data();
        weight_saved.reset_data();
        inverse_rms.reset();
    }

    // With n = x r (r = 1 / rms) and h = g * weight:  dx = r (h - n mean(h n)),  dweight = sum g n.
    torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
        at::NoGradGuard no_grad;
        if (!grads[0].defined()) return {at::Tensor(), at::Tensor()};
        const at::Tensor x = x_saved.unpack().contiguous();
        const at::Tensor weight = weight_saved.unpack();
        const at::Tensor g = grads[0].contiguous();
        const std::int64_t dim = x.size(-1), rows = dim == 0 ? 0 : x.numel() / dim;
        const std::int64_t partials = (rows + kRowsPerPartial - 1) / kRowsPerPartial;
        at::Tensor dx = at::empty_like(x);
        at::Tensor dw = at::zeros({partials, dim}, x.options());
        const float* px = x.const_data_ptr<float>();
        const float* pg = g.const_data_ptr<float>();
        const float* pw = weight.const_data_ptr<float>();
        const float* pr = inverse_rms.const_data_ptr<float>();
        float* out = dx.mutable_data_ptr<float>();
        float* sums = dw.mutable_data_ptr<float>();
        parallel_for(partials, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t p = begin; p < end; ++p) {
                float* sum = sums + p * dim;
                const std::int64_t last = std::min(rows, (p + 1) * kRowsPerPartial);
                for (std::int64_t row = p * kRowsPerPartial; row < last; ++row) {
                    const float* xr = px + row * dim;
                    const float* gr = pg + row * dim;
                    const float r = pr[row];
                    const float mean =
                        row_sum(dim, [&](std::int64_t i) { return gr[i] * pw[i] * (xr[i] * r); }) /
                        static_cast<float>(dim);
                    for (std::int64_t i = 0; i < dim; ++i) {
                        const float n = xr[i] * r;
                        sum[i] += gr[i] * n;
                        out[row * dim + i] = r * (gr[i] * pw[i] - n * mean);
                    }
                }
            }
        });
        return {dx, dw.sum(0)};
    }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
    if (x.dim() < 1 || weight.dim() != 1 || x.size(-1) != weight.size(0) ||
        x.scalar_type() != at::kFloat || weight.scalar_type() != at::kFloat) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("rms_norm: last axis of x is {}, weight has {} elements",
                                x.dim() > 0 ? x.size(-1) : 0, weight.numel()),
                    "x must be FP32 [..., D] and weight FP32 [D]");
    }
    at::Tensor y, inverse_rms;
    {
        at::NoGradGuard no_grad;
        use_torch_threads();
        const at::Tensor input = x.contiguous();
        const std::int64_t dim = x.size(-1), rows = dim == 0 ? 0 : x.numel() / dim;
        y = at::empty_like(input);
        inverse_rms = at::empty({rows}, x.options().requires_grad(false));
        const float* px = input.const_data_ptr<float>();
        const float* pw = weight.const_data_ptr<float>();
        float* py = y.mutable_data_ptr<float>();
        float* pr = inverse_rms.mutable_data_ptr<float>();
        parallel_for(rows, 16, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row) {
                const float* xr = px + row * dim;
                const float mean = row_sum(dim, [&](std::int64_t i) { return xr[i] * xr[i]; }) /
                                   static_cast<float>(dim);
                const float r = 1.0f / std::sqrt(mean + static_cast<float>(eps));
                pr[row] = r;
                for (std::int64_t i = 0; i < dim; ++i) py[row * dim + i] = xr[i] * r * pw[i];
            }
        });
    }
    if (at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad())) {
        auto node = c10::make_intrusive<RmsNormBackward>();
        node->x_saved = torch::autograd::SavedVariable(x, false);
        node->weight_saved = torch::autograd::SavedVariable(weight, false);
        node->inverse_rms = inverse_rms;
        node->set_next_edges(torch::autograd::collect_next_edges(x, weight));
        torch::autograd::set_history(y, node);
    }
    return y;
}

}  // namespace subbyte::ops
