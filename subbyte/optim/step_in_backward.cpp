// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Updates inside the backward pass, by LibTorch's hooks behind the accumulation of a gradient.
#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "subbyte/core/error.h"
#include "subbyte/ops/reduce.h"
#include "subbyte/optim/optimizer.h"

namespace subbyte::optim {

class Optimizer::UpdateHook : public torch::autograd::PostAccumulateGradHook {
public:
    UpdateHook(Optimizer& optimizer, std::size_t parameter)
        : optimizer_(optimizer), parameter_(parameter) {}
    void operator()(const torch::autograd::Variable&) override {
        optimizer_.update_in_backward(parameter_);
    }

private:
    Optimizer& optimizer_;
    std::size_t parameter_;
};

// The parameters may outlive the optimizer, and a backward pass may have thrown.
Optimizer::~Optimizer() {
    if (in_backward_) remove_hooks();
}

void Optimizer::remove_hooks() {
    for (Parameter& parameter : parameters_) {
        torch::autograd::impl::set_post_acc_grad_hooks(parameter.value, nullptr);
    }
}

void Optimizer::start_step_in_backward() {
    if (max_grad_norm_ > 0) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("updates inside backward cannot clip by a global norm of {}: it is "
                                "known at the end only",
                                max_grad_norm_),
                    "set the largest norm to 0, or update after backward");
    }
    if (in_backward_) {
        throw Error(ErrorCode::kUsage, "a step inside backward was started twice",
                    "finish the one before");
    }
    in_backward_ = InBackward{};
    in_backward_->squares.resize(parameters_.size());
    in_backward_->seen.resize(parameters_.size());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i].value,
                                                       std::make_unique<UpdateHook>(*this, i));
    }
}

void Optimizer::update_in_backward(std::size_t i) {
    const at::Tensor grad = parameters_[i].value.grad();
    if (!grad.defined()) return;
    check_gradient(i, grad);
    InBackward& state = *in_backward_;
    state.seen[i] = true;
    state.squares[i] = ops::squared_norm(grad);
    state.finite = state.finite && std::isfinite(state.squares[i]);
    if (state.finite) {
        update(i, grad, 1.0, steps_ + 1);
        ++state.updated;
    }
    parameters_[i].value.mutable_grad().reset();
}

StepResult Optimizer::finish_step_in_backward() {
    if (!in_backward_) {
        throw Error(ErrorCode::kUsage, "a step inside backward was finished without its start");
    }
    remove_hooks();
    // What the last pass did not reach.
    for (std::size_t i = 0; i < parameters_.size(); ++i) update_in_backward(i);
    const InBackward state = std::move(*in_backward_);
    in_backward_.reset();
    StepResult result;
    double squares = 0;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        if (!std::isfinite(state.squares[i]) && result.nonfinite.empty()) {
            result.nonfinite = parameters_[i].name;
        }
        squares += state.squares[i];
    }
    if (std::find(state.seen.begin(), state.seen.end(), true) == state.seen.end()) {
        throw Error(ErrorCode::kUsage, "a step inside backward without any gradient",
                    "call backward() on the loss between start and end");
    }
    if (!state.finite && state.updated > 0) {
        throw Error(ErrorCode::kDiverged,
                    fmt::format("the gradient of {} is not finite, and {} parameters had been "
                                "updated inside backward by then",
                                result.nonfinite, state.updated),
                    "go back to the last checkpoint; optim.in_backward = false can skip such a "
                    "step");
    }
    return finish(std::move(result), squares);
}

}  // namespace subbyte::optim
