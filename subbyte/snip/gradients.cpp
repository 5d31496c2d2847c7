// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace subbyte::snip {
namespace {

// Takes a gradient out of a parameter when backward has added it up.
class TakeGradient : public torch::autograd::PostAccumulateGradHook {
public:
    explicit TakeGradient(const VisitGradient& visit) : visit_(visit) {}
    void operator()(const torch::autograd::Variable& parameter) override {
        const at::Tensor gradient = std::exchange(parameter.mutable_grad(), at::Tensor());
        const at::NoGradGuard no_grad;
        if (gradient.defined()) visit_(parameter, gradient);
    }

private:
    const VisitGradient& visit_;
};

// The hooks of one backward pass, which may throw.
class Hooks {
public:
    Hooks(const optim::Optimizer& optimizer, const VisitGradient& visit) : optimizer_(optimizer) {
        for (const optim::Parameter& p : optimizer_.parameters()) {
            torch::autograd::impl::set_post_acc_grad_hooks(p.value,
                                                           std::make_unique<TakeGradient>(visit));
        }
    }
    ~Hooks() {
        for (const optim::Parameter& p : optimizer_.parameters()) {
            torch::autograd::impl::set_post_acc_grad_hooks(p.value, nullptr);
        }
    }
    Hooks(const Hooks&) = delete;
    Hooks& operator=(const Hooks&) = delete;

private:
    const optim::Optimizer& optimizer_;
};

}  // namespace

StoredGradients::StoredGradients(const optim::Optimizer& optimizer) {
    for (const optim::Parameter& p : optimizer.parameters()) {
        parameters_.push_back(p.value);
        gradients_.push_back(std::exchange(parameters_.back().mutable_grad(), at::Tensor()));
    }
}

StoredGradients::~StoredGradients() {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        parameters_[i].mutable_grad() = std::move(gradients_[i]);
    }
}

at::Tensor loss_with_graph(const LossFunction& loss) {
    const at::AutoGradMode with_gradients(true);
    return loss();
}

std::vector<at::Tensor> take_gradients(const at::Tensor& loss,
                                       const std::vector<at::Tensor>& weights, bool keep_graph) {
    torch::autograd::backward({loss}, {}, keep_graph);
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& weight : weights) {
        gradients.push_back(std::exchange(weight.mutable_grad(), at::Tensor()));
        if (!gradients.back().defined()) gradients.back() = at::zeros_like(weight.detach());
    }
    return gradients;
}

void visit_gradients(const at::Tensor& loss, const optim::Optimizer& optimizer, bool keep_graph,
                     const VisitGradient& visit) {
    const Hooks hooks(optimizer, visit);
    torch::autograd::backward({loss}, {}, keep_graph);
}

}  // namespace subbyte::snip
