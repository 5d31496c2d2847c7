// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/swiglu.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <utility>

#include "subbyte/core/error.h"
#include "subbyte/kernels/elementwise/elementwise.h"
#include "subbyte/ops/threads.h"

namespace subbyte::ops {
namespace {

std::uint16_t* bf16_data(at::Tensor& t) {
    return t.defined() ? reinterpret_cast<std::uint16_t*>(t.mutable_data_ptr()) : nullptr;
}

class SwigluBackward : public torch::autograd::Node {
public:
    KeptActivation gate, up;

    std::string name() const override { return "SubbyteSwigluBackward"; }
    void release_variables() override {
        gate.release();
        up.release();
    }

    torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
        at::NoGradGuard no_grad;
        if (!grads[0].defined()) return {at::Tensor(), at::Tensor()};
        at::Tensor a = gate.load("swiglu"), b = up.load("swiglu");
        const at::Tensor g = grads[0].contiguous();
        at::Tensor gate_gradient = at::empty_like(g), up_gradient = at::empty_like(g);
        float* const da = gate_gradient.mutable_data_ptr<float>();
        float* const db = up_gradient.mutable_data_ptr<float>();
        if (a.scalar_type() == at::kBFloat16) {
            kernels::swiglu_backward(bf16_data(a), bf16_data(b), g.const_data_ptr<float>(),
                                     g.numel(), da, db);
        } else {
            kernels::swiglu_backward(a.const_data_ptr<float>(), b.const_data_ptr<float>(),
                                     g.const_data_ptr<float>(), g.numel(), da, db);
        }
        return {gate_gradient, up_gradient};
    }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, Keep keep) {
    if (gate.sizes() != up.sizes() || gate.scalar_type() != at::kFloat ||
        up.scalar_type() != at::kFloat) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("swiglu: gate is {} of [{}], up is {} of [{}]",
                                c10::toString(gate.scalar_type()), fmt::join(gate.sizes(), ", "),
                                c10::toString(up.scalar_type()), fmt::join(up.sizes(), ", ")),
                    "both must be FP32 of the same shape");
    }
    const bool record = at::GradMode::is_enabled() && (gate.requires_grad() || up.requires_grad());
    at::Tensor y;
    KeptActivation kept_gate, kept_up;
    {
        at::NoGradGuard no_grad;
        use_torch_threads();
        const at::Tensor a = gate.detach().contiguous(), b = up.detach().contiguous();
        y = at::empty_like(a);
        at::Tensor a16, b16;
        if (record && keep == Keep::kBf16) {
            a16 = at::empty_like(a, a.options().dtype(at::kBFloat16));
            b16 = at::empty_like(a16);
        }
        kernels::swiglu(a.const_data_ptr<float>(), b.const_data_ptr<float>(), a.numel(),
                        y.mutable_data_ptr<float>(), bf16_data(a16), bf16_data(b16));
        if (record) {
            kept_gate = KeptActivation(a16.defined() ? a16 : a, keep);
            kept_up = KeptActivation(b16.defined() ? b16 : b, keep);
        }
    }
    if (record) {
        auto node = c10::make_intrusive<SwigluBackward>();
        node->gate = std::move(kept_gate);
        node->up = std::move(kept_up);
        node->set_next_edges(torch::autograd::collect_next_edges(gate, up));
        torch::autograd::set_history(y, node);
    }
    return y;
}

}  // namespace subbyte::ops
