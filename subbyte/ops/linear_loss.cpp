// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/linear_loss.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/kernels/elementwise/elementwise.h"
#include "subbyte/ops/linear_operands.h"
#include "subbyte/ops/threads.h"

namespace subbyte::ops {
namespace {

using plan::Slot;

// The gradients are there already; what arrives is the factor of the loss. They are scaled in
// place, but for a backward pass that keeps the graph: the next one needs them as they are.
class LinearLossBackward : public torch::autograd::Node {
public:
    at::Tensor dx, dw;  // of the summed loss; undefined when nobody needs them
    bool used = false;

    std::string name() const override { return "SubbyteLinearLossBackward"; }
    void release_variables() override {
        dx.reset();
        dw.reset();
        used = true;
    }

    torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
        at::NoGradGuard no_grad;
        if (!grads[0].defined()) return {at::Tensor(), at::Tensor()};
        if (used) {
            throw Error(ErrorCode::kUsage, "backward was called twice through the same loss",
                        "run the forward pass again before the second backward");
        }
        if (torch::autograd::get_current_graph_task_keep_graph()) {
            return {dx.defined() ? dx.mul(grads[0]) : dx, dw.defined() ? dw.mul(grads[0]) : dw};
        }
        used = true;
        for (at::Tensor* t : {&dx, &dw}) {
            if (t->defined()) t->mul_(grads[0]);
        }
        return {std::move(dx), std::move(dw)};
    }
};

struct Gradients {
    at::Tensor dx, dw;
};

// The losses of some rows and the copies of the gradient of their logits, which are lost.
QuantizedPair logits_gradient(at::Tensor& logits, const std::int64_t* labels,
                              const LinearContext& context, bool needs_dx, bool needs_dw,
                              std::uint32_t part, float* losses) {
    const std::int64_t rows = logits.size(0), vocabulary = logits.size(1);
    float* const x = logits.mutable_data_ptr<float>();
    const QuantizedCopies copies{rows_copy(context, Slot::kDgrad, part),
                                 columns_copy(context, Operand::kA, part)};
    if (!needs_dx || !needs_dw || copies.rows.spec.is_fp32() || copies.columns.spec.is_fp32()) {
        kernels::softmax_cross_entropy(x, labels, rows, vocabulary, needs_dx || needs_dw, losses);
        return quantized_gradient(logits, context, needs_dx, needs_dw, part);
    }
    std::vector<kernels::SoftmaxRow> softmax(static_cast<std::size_t>(rows));
    kernels::softmax_losses(x, labels, rows, vocabulary, losses, softmax.data());
    const auto gradient = [&](const kernels::ComputedMatrices::Piece& p, float* const out[],
                              std::int64_t stride) {
        kernels::softmax_gradient(x, labels, softmax.data(), vocabulary, p.row0, p.row1, p.col0,
                                  p.col1, out[0], stride);
    };
    return std::move(quantize_computed({rows, vocabulary, gradient}, {copies}).front());
}

// Loss of all rows; fills the gradients that are asked for.
double run(const at::Tensor& x, const at::Tensor& weight, const std::int64_t* labels,
           const LinearContext& context, bool needs_dx, bool needs_dw, Gradients& gradients) {
    const std::int64_t rows = x.size(0), vocabulary = weight.size(0);
    // Fewer than 4096 groups: their number is part of the noise address.
    const std::int64_t group = std::max(loss_group_rows(vocabulary), (rows / 4096 / 128 + 1) * 128);
    std::vector<float> losses(static_cast<std::size_t>(rows));
    if (needs_dx) gradients.dx = at::empty_like(x);
    if (needs_dw && rows == 0) gradients.dw = at::zeros_like(weight);
    std::uint32_t part = 0;
    for (std::int64_t first = 0; first < rows; first += group, ++part) {
        const std::int64_t count = std::min(group, rows - first);
        const QuantizedPair input =
            quantized_input(x.narrow(0, first, count), context, needs_dw, part);
        at::Tensor logits =
            gemm(input.rows, quantized_weight(weight, context, Slot::kFprop, needs_dx), "fprop");
        const QuantizedPair g =
            logits_gradient(logits, labels + first, context, needs_dx, needs_dw, part,
                            losses.data() + static_cast<std::size_t>(first));
        logits.reset();  // the largest tensor of the step; the GEMMs do not need it any more
        if (needs_dx) {
            gradients.dx.narrow(0, first, count)
                .copy_(gemm(g.rows, quantized_weight(weight, context, Slot::kDgrad), "dgrad"));
        }
        if (needs_dw && gradients.dw.defined()) {
            add_gemm(g.columns, input.columns, gradients.dw, "wgrad");
        } else if (needs_dw) {
            gradients.dw = gemm(g.columns, input.columns, "wgrad");
        }
    }
    double sum = 0;
    for (float loss : losses) sum += loss;
    return sum;
}

}  // namespace

std::int64_t loss_group_rows(std::int64_t vocabulary) {
    constexpr std::int64_t kLogits = 16 << 20;
    return std::max<std::int64_t>(1, kLogits / std::max<std::int64_t>(1, vocabulary) / 128) * 128;
}

SummedLoss linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels, const LinearContext& context) {
    check_linear(x, weight);
    SummedLoss loss;
    const at::Tensor flat =
        checked_labels(labels, weight.size(0), x.numel() / weight.size(1), &loss.count);
    const bool record = at::GradMode::is_enabled();
    const bool needs_dx = record && x.requires_grad();
    const bool needs_dw = record && weight.requires_grad();
    Gradients gradients;
    {
        at::NoGradGuard no_grad;
        use_torch_threads();
        const at::Tensor x2 = x.detach().reshape({-1, weight.size(1)}).contiguous();
        loss.sum = at::scalar_tensor(run(x2, weight, flat.const_data_ptr<std::int64_t>(), context,
                                         needs_dx, needs_dw, gradients),
                                     at::kFloat);
    }
    if (needs_dx || needs_dw) {
        auto node = c10::make_intrusive<LinearLossBackward>();
        if (needs_dx) node->dx = gradients.dx.view(x.sizes());
        node->dw = gradients.dw;
        node->set_next_edges(torch::autograd::collect_next_edges(x, weight));
        torch::autograd::set_history(loss.sum, node);
    }
    return loss;
}

}  // namespace subbyte::ops
