// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/linear.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include "subbyte/core/error.h"
#include "subbyte/ops/linear_operands.h"

namespace subbyte::ops {
namespace {

using plan::Slot;

class LinearBackward : public torch::autograd::Node {
public:
    LinearContext context;
    QuantizedTensor x_wgrad;  // X^T packed along T
    at::Tensor weight;        // the parameter itself (no copy)
    std::uint32_t weight_version = 0;
    bool needs_dx = false, needs_dw = false;

    std::string name() const override { return "SubbyteLinearBackward"; }

    void release_variables() override {
        x_wgrad = {};
        weight.reset();
    }

    torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
        at::NoGradGuard no_grad;
        torch::autograd::variable_list result(2);
        if (!grads[0].defined()) return result;
        if (!weight.defined()) {
            throw Error(ErrorCode::kUsage,
                        "backward was called twice through the same linear layer",
                        "run the forward pass again before the second backward");
        }
        if (weight._version() != weight_version) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("the weight of linear layer {} was changed between its forward "
                                    "and backward pass",
                                    context.layer),
                        "step the optimizer only after backward");
        }
        const std::vector<std::int64_t> shape = grads[0].sizes().vec();
        const at::Tensor g = grads[0].reshape({-1, weight.size(0)}).contiguous();
        at::Tensor dx, dw;
        {
            const QuantizedPair q = quantized_gradient(g, context, needs_dx, needs_dw);
            if (needs_dx)
                dx = gemm(q.rows, quantized_weight(weight, context, Slot::kDgrad), "dgrad");
            if (needs_dw && adds_to_gradient()) {
                add_gemm(q.columns, x_wgrad, weight.mutable_grad(), "wgrad");
            } else if (needs_dw) {
                dw = gemm(q.columns, x_wgrad, "wgrad");
            }
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

private:
    // Later micro-batches of a step: their product goes straight into the gradient.
    bool adds_to_gradient() const {
        const at::Tensor& grad = weight.grad();
        return context.adds_gradients && context.observer == nullptr && grad.defined() &&
               grad.scalar_type() == at::kFloat && grad.is_contiguous() &&
               torch::autograd::impl::post_acc_grad_hooks(weight) == nullptr;
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
            node->context = context;
            node->context.inputs = nullptr;  // lives as long as the forward pass
            node->weight = weight;
            node->weight_version = weight._version();
            node->needs_dx = needs_dx;
            node->needs_dw = needs_dw;
            node->x_wgrad = std::move(input.columns);
        }
    }
    if (node) {
        node->set_next_edges(torch::autograd::collect_next_edges(x, weight));
        torch::autograd::set_history(y, node);
    }
    return y;
}

}  // namespace subbyte::ops
