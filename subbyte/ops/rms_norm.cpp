// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/rms_norm.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/sum.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <utility>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/kernels/elementwise/elementwise.h"
#include "subbyte/ops/threads.h"

namespace subbyte::ops {
namespace {

std::int64_t rows_of(const at::Tensor& x) { return x.size(-1) == 0 ? 0 : x.numel() / x.size(-1); }

class RmsNormBackward : public torch::autograd::Node {
public:
    KeptActivation sum;
    torch::autograd::SavedVariable weight_saved;
    at::Tensor inverse_rms;
    bool has_y = false;

    std::string name() const override { return "SubbyteRmsNormBackward"; }
    void release_variables() override {
        sum.release();
        weight_saved.reset_data();
        inverse_rms.reset();
    }

    torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
        at::NoGradGuard no_grad;
        const auto gradients = [&](const at::Tensor& d, const at::Tensor& dw) {
            return has_y ? torch::autograd::variable_list{d, d, dw}
                         : torch::autograd::variable_list{d, dw};
        };
        if (!grads[1].defined()) return gradients(grads[0], {});
        const at::Tensor x = sum.load("RMSNorm"), weight = weight_saved.unpack();
        const at::Tensor g = grads[1].contiguous();
        const at::Tensor g_sum = grads[0].defined() ? grads[0].contiguous() : grads[0];
        const std::int64_t rows = rows_of(x), dim = x.size(-1);
        at::Tensor dx = at::empty_like(x);
        at::Tensor dw = at::empty({kernels::rms_norm_partials(rows), dim}, x.options());
        kernels::rms_norm_backward(x.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                                   inverse_rms.const_data_ptr<float>(), g.const_data_ptr<float>(),
                                   g_sum.defined() ? g_sum.const_data_ptr<float>() : nullptr, rows,
                                   dim, dx.mutable_data_ptr<float>(), dw.mutable_data_ptr<float>());
        return gradients(dx, dw.sum(0));
    }
};

void check(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight) {
    if (x.dim() < 1 || weight.dim() != 1 || x.size(-1) != weight.size(0) ||
        x.scalar_type() != at::kFloat || weight.scalar_type() != at::kFloat) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("rms_norm: last axis of x is {}, weight has {} elements",
                                x.dim() > 0 ? x.size(-1) : 0, weight.numel()),
                    "x must be FP32 [..., D] and weight FP32 [D]");
    }
    if (y.defined() && (y.sizes() != x.sizes() || y.scalar_type() != at::kFloat)) {
        throw Error(ErrorCode::kUsage, "rms_norm: x and what is added to it have different shapes",
                    "both must be FP32 of the same shape");
    }
}

// The shape of x with memory for one element.
at::Tensor outline_of(const at::Tensor& x) {
    const std::vector<std::int64_t> strides(static_cast<std::size_t>(x.dim()), 0);
    return at::empty_strided(x.sizes(), strides, x.options());
}

kernels::ComputedMatrices normed_rows(const at::Tensor& x, const at::Tensor& inverse_rms,
                                      const at::Tensor& weight) {
    using Piece = kernels::ComputedMatrices::Piece;
    const std::int64_t dim = x.size(-1);
    return {rows_of(x), dim,
            [x, inverse_rms, weight, dim](const Piece& p, float* const out[], std::int64_t stride) {
                kernels::rms_norm_rows({p.row1 - p.row0, p.col1 - p.col0, dim, stride},
                                       x.const_data_ptr<float>() + p.row0 * dim + p.col0,
                                       inverse_rms.const_data_ptr<float>() + p.row0,
                                       weight.const_data_ptr<float>() + p.col0, out[0]);
            }};
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps, Keep keep) {
    return add_rms_norm(x, {}, weight, eps, keep).normed.tensor();
}

NormedSum add_rms_norm(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight,
                       double eps, Keep keep) {
    check(x, y, weight);
    at::Tensor sum, kept, outline, inverse_rms;
    kernels::ComputedMatrices values;
    {
        at::NoGradGuard no_grad;
        use_torch_threads();
        const at::Tensor a = x.detach().contiguous();
        const at::Tensor b = y.defined() ? y.detach().contiguous() : y;
        const std::int64_t rows = rows_of(a);
        kept = y.defined() ? at::empty_like(a) : a;
        sum = kept.detach();
        outline = outline_of(a);
        inverse_rms = at::empty({rows}, a.options());
        const at::Tensor w = weight.detach().contiguous();
        kernels::rms_norm(a.const_data_ptr<float>(),
                          b.defined() ? b.const_data_ptr<float>() : nullptr,
                          w.const_data_ptr<float>(), rows, a.size(-1), static_cast<float>(eps),
                          b.defined() ? kept.mutable_data_ptr<float>() : nullptr, nullptr,
                          inverse_rms.mutable_data_ptr<float>());
        values = normed_rows(kept, inverse_rms, w);
    }
    const bool record =
        x.requires_grad() || weight.requires_grad() || (y.defined() && y.requires_grad());
    if (at::GradMode::is_enabled() && record) {
        auto node = c10::make_intrusive<RmsNormBackward>();
        node->sum = KeptActivation(kept, kept_by_norms(keep));
        node->weight_saved = torch::autograd::SavedVariable(weight, false);
        node->inverse_rms = inverse_rms;
        node->has_y = y.defined();
        node->set_next_edges(y.defined() ? torch::autograd::collect_next_edges(x, y, weight)
                                         : torch::autograd::collect_next_edges(x, weight));
        torch::autograd::set_history(torch::autograd::variable_list{sum, outline}, node);
    }
    return {sum, {outline, std::move(values)}};
}

}  // namespace subbyte::ops
