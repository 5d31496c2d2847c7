// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/linear.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "subbyte/core/error.h"
#include "subbyte/ops/linear_backward.h"
#include "subbyte/ops/linear_operands.h"

namespace subbyte::ops {
namespace {

using plan::Slot;

class LinearBackward : public torch::autograd::Node {
public:
    KeptLayer kept;
    bool needs_dx = false, needs_dw = false;

    std::string name() const override { return "SubbyteLinearBackward"; }

    void release_variables() override { kept.release(); }

    torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
        at::NoGradGuard no_grad;
        torch::autograd::variable_list result(2);
        if (!grads[0].defined()) return result;
        const LinearContext& context = kept.context;
        const at::Tensor weight = kept.weight.get(context);
        const std::vector<std::int64_t> shape = grads[0].sizes().vec();
        const at::Tensor g = grads[0].reshape({-1, weight.size(0)}).contiguous();
        at::Tensor dx, dw;
        {
            const QuantizedPair q = quantized_gradient(g, context, needs_dx, needs_dw);
            if (needs_dx)
                dx = gemm(q.rows, quantized_weight(weight, context, Slot::kDgrad), "dgrad");
            if (needs_dw) dw = weight_gradient(q.columns, kept.x_wgrad, weight, context);
        }
        if (context.observer != nullptr) context.observer->on_backward(context.layer, g, dx, dw);
        if (dx.defined()) {
            std::vector<std::int64_t> dx_shape = shape;
            dx_shape.back() = weight.size(1);
            result[0] = dx.reshape(dx_shape);
        }
        result[1] = dw;
        return result;
    }
};

}  // namespace

void check_linear(const at::Tensor& x, const at::Tensor& w) {
    if (w.dim() != 2 || x.dim() < 1 || x.size(-1) != w.size(1)) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("linear: x has {} dimensions, the last of {}; weight has {} "
                                "dimensions, the last of {}",
                                x.dim(), x.dim() > 0 ? x.size(-1) : 0, w.dim(),
                                w.dim() > 0 ? w.size(-1) : 0),
                    "x must be [..., K] and weight [N, K]");
    }
    if (x.scalar_type() != at::kFloat || w.scalar_type() != at::kFloat) {
        throw Error(
            ErrorCode::kUsage,
            fmt::format("linear: x is {}, weight is {}", c10::toString(x.scalar_type()),
                        c10::toString(w.scalar_type())),
            "quantised layers read and write FP32; the recipe chooses the precision inside");
    }
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const LinearContext& context) {
    check_linear(x, weight);
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = weight.size(0);
    const bool record = at::GradMode::is_enabled();
    const bool needs_dx = record && x.requires_grad();
    const bool needs_dw = record && weight.requires_grad();

    at::Tensor y;
    c10::intrusive_ptr<LinearBackward> node;
    {
        at::NoGradGuard no_grad;
        const at::Tensor x2 = x.detach().reshape({-1, weight.size(1)}).contiguous();
        QuantizedPair input = quantized_input(x2, context, needs_dw);
        y = gemm(input.rows, quantized_weight(weight, context, Slot::kFprop, needs_dx), "fprop");
        if (context.observer != nullptr) {
            if (context.discarded) {
                context.observer->on_discarded_forward(context.layer, x2, weight.detach(), y);
            } else {
                context.observer->on_forward(context.layer, x2, weight.detach(), y);
            }
        }
        y = y.reshape(shape);
        if (needs_dx || needs_dw) {
            node = c10::make_intrusive<LinearBackward>();
            node->kept = KeptLayer(weight, context, std::move(input.columns));
            node->needs_dx = needs_dx;
            node->needs_dw = needs_dw;
        }
    }
    if (node) {
        node->set_next_edges(torch::autograd::collect_next_edges(x, weight));
        torch::autograd::set_history(y, node);
    }
    return y;
}

}  // namespace subbyte::ops
