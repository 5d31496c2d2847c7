// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/linear_group.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <utility>

#include "subbyte/ops/linear_backward.h"
#include "subbyte/ops/linear_operands.h"

namespace subbyte::ops {
namespace {

using plan::Slot;

class LinearGroupBackward : public torch::autograd::Node {
public:
    std::vector<KeptLayer> layers;
    std::vector<std::int64_t> x_shape;

    std::string name() const override { return "SubbyteLinearGroupBackward"; }
    void release_variables() override {
        for (KeptLayer& layer : layers) layer.release();
    }

    torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
        at::NoGradGuard no_grad;
        torch::autograd::variable_list result(1 + layers.size());
        at::Tensor dx;
        for (std::size_t i = layers.size(); i-- > 0;) {  // the order in which autograd would add
            if (!grads[i].defined()) continue;
            const LinearContext& context = layers[i].context;
            const at::Tensor weight = layers[i].weight.get(context);
            const at::Tensor g = grads[i].reshape({-1, weight.size(0)}).contiguous();
            const QuantizedPair q = quantized_gradient(g, context, true, true);
            const QuantizedTensor w = quantized_weight(weight, context, Slot::kDgrad);
            if (dx.defined()) {
                add_gemm(q.rows, w, dx, "dgrad");
            } else {
                dx = gemm(q.rows, w, "dgrad");
            }
            result[1 + i] = weight_gradient(q.columns, layers[i].x_wgrad, weight, context);
        }
        if (dx.defined()) result[0] = dx.reshape(x_shape);
        return result;
    }
};

}  // namespace

std::vector<at::Tensor> linear_group(const LayerInput& input, std::vector<LinearLayer> layers) {
    InputCache inputs(input);
    const at::Tensor& x = input.outline();
    for (LinearLayer& layer : layers) layer.context.inputs = &inputs;
    std::vector<at::Tensor> y;
    const bool plain = at::GradMode::is_enabled() && x.requires_grad() &&
                       std::all_of(layers.begin(), layers.end(), [](const LinearLayer& layer) {
                           return layer.weight.requires_grad() && layer.context.observer == nullptr;
                       });
    if (!plain) {
        for (const LinearLayer& layer : layers) {
            y.push_back(linear(input.tensor(), layer.weight, layer.context));
        }
        return y;
    }
    auto node = c10::make_intrusive<LinearGroupBackward>();
    torch::autograd::edge_list edges = torch::autograd::collect_next_edges(x);
    {
        at::NoGradGuard no_grad;
        node->x_shape = x.sizes().vec();
        std::vector<std::int64_t> shape = node->x_shape;
        for (const LinearLayer& layer : layers) {
            check_linear(x, layer.weight);
            QuantizedPair copies = quantized_input({}, layer.context, true);
            shape.back() = layer.weight.size(0);
            y.push_back(gemm(copies.rows,
                             quantized_weight(layer.weight, layer.context, Slot::kFprop, true),
                             "fprop")
                            .reshape(shape));
            node->layers.emplace_back(layer.weight, layer.context, std::move(copies.columns));
            edges.push_back(torch::autograd::collect_next_edges(layer.weight).front());
        }
    }
    node->set_next_edges(std::move(edges));
    torch::autograd::set_history(y, node);
    return y;
}

}  // namespace subbyte::ops
