// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/swiglu_mlp.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "subbyte/kernels/elementwise/elementwise.h"
#include "subbyte/ops/linear_backward.h"
#include "subbyte/ops/linear_operands.h"
#include "subbyte/ops/swiglu.h"

namespace subbyte::ops {
namespace {

using kernels::ComputedMatrices;
using plan::Slot;

kernels::RowShape shape_of(const ComputedMatrices::Piece& p, std::int64_t stride,
                           std::int64_t out_stride) {
    return {p.row1 - p.row0, p.col1 - p.col0, stride, out_stride};
}

template <typename T>
T* at_piece(const at::Tensor& t, const ComputedMatrices::Piece& p) {
    return t.defined() ? static_cast<T*>(t.mutable_data_ptr()) + p.row0 * t.size(1) + p.col0
                       : nullptr;
}

class SwigluMlpBackward : public torch::autograd::Node {
public:
    KeptLayer gate, up, down;
    KeptActivation kept_a, kept_b;  // outputs of gate and up [T, N]

    std::string name() const override { return "SubbyteSwigluMlpBackward"; }
    void release_variables() override {
        for (KeptLayer* layer : {&gate, &up, &down}) layer->release();
        kept_a.release();
        kept_b.release();
    }

    torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
        at::NoGradGuard no_grad;
        torch::autograd::variable_list result(4);
        if (!grads[0].defined()) return result;
        const at::Tensor w_gate = gate.weight.get(gate.context), w_up = up.weight.get(up.context),
                         w_down = down.weight.get(down.context);
        std::vector<std::int64_t> shape = grads[0].sizes().vec();
        shape.back() = w_gate.size(1);
        at::Tensor dh;
        {
            const at::Tensor g = grads[0].reshape({-1, w_down.size(0)}).contiguous();
            const QuantizedPair q = quantized_gradient(g, down.context, true, true);
            dh = gemm(q.rows, quantized_weight(w_down, down.context, Slot::kDgrad), "dgrad");
            result[3] = weight_gradient(q.columns, down.x_wgrad, w_down, down.context);
        }
        const std::vector<QuantizedPair> q = quantized_gradients(dh);
        dh.reset();
        at::Tensor dx =
            gemm(q[0].rows, quantized_weight(w_gate, gate.context, Slot::kDgrad), "dgrad");
        add_gemm(q[1].rows, quantized_weight(w_up, up.context, Slot::kDgrad), dx, "dgrad");
        result[0] = dx.reshape(shape);
        result[1] = weight_gradient(q[0].columns, gate.x_wgrad, w_gate, gate.context);
        result[2] = weight_gradient(q[1].columns, up.x_wgrad, w_up, up.context);
        return result;
    }

private:
    // Those of the outputs of gate and up.
    std::vector<QuantizedPair> quantized_gradients(const at::Tensor& dh) const {
        const at::Tensor a = kept_a.load("MLP"), b = kept_b.load("MLP");
        const auto compute = [&]<typename T>(const ComputedMatrices::Piece& p, float* const out[],
                                             std::int64_t stride) {
            kernels::swiglu_backward_rows(
                shape_of(p, dh.size(1), stride), static_cast<const T*>(at_piece<T>(a, p)),
                static_cast<const T*>(at_piece<T>(b, p)), at_piece<float>(dh, p), out[0], out[1]);
        };
        const auto copies = [](const LinearContext& c) {
            return QuantizedCopies{rows_copy(c, Slot::kDgrad, 0), columns_copy(c, Operand::kA, 0)};
        };
        const bool half = a.scalar_type() == at::kBFloat16;
        return quantize_computed(
            {dh.size(0), dh.size(1),
             [&](const ComputedMatrices::Piece& p, float* const out[], std::int64_t stride) {
                 half ? compute.template operator()<std::uint16_t>(p, out, stride)
                      : compute.template operator()<float>(p, out, stride);
             }},
            {copies(gate.context), copies(up.context)});
    }
};

bool quantises_all(const LinearContext& context) {
    const auto& slots = context.recipe->slots;
    return std::none_of(slots.begin(), slots.end(), [](const plan::SlotRecipe& slot) {
        return slot.a.is_fp32() || slot.b.is_fp32();
    });
}

// Inputs of the down projection for fprop and wgrad, from the outputs a, b of gate and up.
QuantizedPair quantized_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& a16,
                                const at::Tensor& b16, const LinearContext& context) {
    const ComputedMatrices product{
        a.size(0), a.size(1),
        [&](const ComputedMatrices::Piece& p, float* const out[], std::int64_t stride) {
            kernels::swiglu_rows(shape_of(p, a.size(1), stride), at_piece<float>(a, p),
                                 at_piece<float>(b, p), out[0], at_piece<std::uint16_t>(a16, p),
                                 at_piece<std::uint16_t>(b16, p));
        }};
    return std::move(quantize_computed(product, {{rows_copy(context, Slot::kFprop, 0),
                                                  columns_copy(context, Operand::kB, 0)}})
                         .front());
}

}  // namespace

at::Tensor swiglu_mlp(const LayerInput& input, LinearLayer gate, LinearLayer up,
                      const LinearLayer& down, Keep keep) {
    InputCache inputs(input);
    const at::Tensor& x = input.outline();
    gate.context.inputs = up.context.inputs = &inputs;
    const auto fits = [](const LinearLayer& layer) {
        return layer.weight.requires_grad() && layer.context.observer == nullptr &&
               quantises_all(layer.context);
    };
    if (!at::GradMode::is_enabled() || !x.requires_grad() || !fits(gate) || !fits(up) ||
        !fits(down) || gate.weight.size(0) != up.weight.size(0)) {
        const at::Tensor& whole = input.tensor();
        const at::Tensor a = linear(whole, gate.weight, gate.context);
        return linear(swiglu(a, linear(whole, up.weight, up.context), keep), down.weight,
                      down.context);
    }
    check_linear(x, gate.weight);
    check_linear(x, up.weight);
    at::Tensor y;
    auto node = c10::make_intrusive<SwigluMlpBackward>();
    {
        at::NoGradGuard no_grad;
        const auto forward = [&](const LinearLayer& layer, KeptLayer& kept) {
            QuantizedPair copies = quantized_input({}, layer.context, true);
            kept = KeptLayer(layer.weight, layer.context, std::move(copies.columns));
            return gemm(copies.rows,
                        quantized_weight(layer.weight, layer.context, Slot::kFprop, true), "fprop");
        };
        const at::Tensor a = forward(gate, node->gate), b = forward(up, node->up);
        check_linear(a, down.weight);
        at::Tensor a16, b16;
        if (keep == Keep::kBf16) {
            a16 = at::empty(a.sizes(), a.options().dtype(at::kBFloat16));
            b16 = at::empty(b.sizes(), b.options().dtype(at::kBFloat16));
        }
        QuantizedPair h = quantized_product(a, b, a16, b16, down.context);
        node->kept_a = KeptActivation(a16.defined() ? a16 : a, keep);
        node->kept_b = KeptActivation(b16.defined() ? b16 : b, keep);
        y = gemm(h.rows, quantized_weight(down.weight, down.context, Slot::kFprop, true), "fprop");
        node->down = KeptLayer(down.weight, down.context, std::move(h.columns));
        std::vector<std::int64_t> shape = x.sizes().vec();
        shape.back() = down.weight.size(0);
        y = y.reshape(shape);
    }
    node->set_next_edges(
        torch::autograd::collect_next_edges(x, gate.weight, up.weight, down.weight));
    torch::autograd::set_history(y, node);
    return y;
}

}  // namespace subbyte::ops
