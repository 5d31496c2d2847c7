// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace subbyte::optim {

// One trained tensor. `value` shares storage with the model; its gradient is value.grad().
struct Parameter {
    std::string name;
    at::Tensor value;
    bool decay = true;  // false: weight decay does not apply (norm weights, by the caller's rule)
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// What one call of step() did.
struct StepResult {
    bool applied = false;   // false: a gradient was not finite; only the skip counter moved
    double grad_norm = 0;   // global 2-norm before clipping (non-finite when skipped)
    std::string nonfinite;  // name of the first parameter with a non-finite gradient, else empty
};

// Base of all optimizers: holds the parameters, clips by global norm, skips non-finite steps,
// counts, and saves its state. Derived classes say how one tensor is updated.
class Optimizer {
public:
    // max_grad_norm 0: no clipping. Error kUsage when the list is empty, a parameter is undefined,
    // not a dense FP32, FP64 or BF16 tensor on the CPU, or appears twice (same name or same
    // memory), or when lr or max_grad_norm is negative or not finite.
    Optimizer(std::vector<Parameter> parameters, double lr, double max_grad_norm);
    virtual ~Optimizer();
    Optimizer(const Optimizer&) = delete;
    Optimizer& operator=(const Optimizer&) = delete;

    // One update from the gradients that are present (parameters without one are left alone; Error
    // kUsage when none is present). A step whose global norm is not finite changes no weight,
    // moment, counter or statistic. The version counter of every updated tensor moves, as after an
    // in-place operation.
    StepResult step();
    void zero_grad();  // releases the gradients

    // The same update inside the last backward pass of a step: between these two calls each
    // parameter is updated as soon as autograd has its whole gradient, which is released at once,
    // so that the gradients never exist all together. The bits of step(). A gradient that is not
    // finite stops the updates; when it is the first one the step is skipped as by step(), later
    // ones have come too late: Error kDiverged. Error kUsage with max_grad_norm (the global norm is
    // known at the end only) and for a start without its end.
    void start_step_in_backward();
    StepResult finish_step_in_backward();

    double lr() const { return lr_; }
    void set_lr(double lr);                        // Error kUsage when negative or not finite
    std::int64_t steps() const { return steps_; }  // applied steps
    std::int64_t skipped() const { return skipped_; }
    const std::vector<Parameter>& parameters() const { return parameters_; }
    double max_grad_norm() const { return max_grad_norm_; }

    // Called at the end of every step(), also of skipped ones.
    void add_step_hook(std::function<void(const StepResult&)> hook);

    // The value that parameter i would have after step() if its gradient were `grad`, already
    // clipped by the caller: grad.to(state dtype) * clip_factor(norm). Changes nothing. The same
    // bits as step(). `grad` has the shape of the parameter and its dtype or the dtype of its state
    // (FP32 for BF16).
    virtual at::Tensor preview(std::size_t i, const at::Tensor& grad) const = 0;

    // Frobenius norm of d W_new / d g of parameter i at the clipped gradient `grad`: elementwise
    // derivative through the moments in force (W_new = U(g); see plan/divergence.h). Elements whose
    // derivative is 0 / 0 (no gradient so far and none now) count as 0.
    virtual double update_sensitivity(std::size_t i, const at::Tensor& grad) const = 0;

    // Factor by which clipping scales gradients of global norm `norm`: min(1, max_grad_norm /
    // (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_.
    double clip_factor(double norm) const;

    virtual std::string name() const = 0;

    // Everything a resume needs besides the parameters: tensors "<parameter>.<state>" (they share
    // memory with the optimizer) and numbers {optimizer, steps, skipped, lr, parameters: {name:
    // {...}}}.
    virtual NamedTensors state_tensors() const = 0;
    virtual nlohmann::json state_numbers() const;
    // Restores both, copying the tensors. Error kData, with nothing changed, when something is
    // missing, has another shape or dtype, belongs to no parameter, or was saved by another kind of
    // optimizer. Derived classes check their part, call this one, then take their part over.
    virtual void load_state(const NamedTensors& tensors, const nlohmann::json& numbers);

protected:
    // Updates parameter i from scale * grad. t = steps_ + 1, counted from 1.
    virtual void update(std::size_t i, const at::Tensor& grad, double scale, std::int64_t t) = 0;

    // Error kUsage when `grad` cannot be a gradient of parameter i.
    void check_gradient(std::size_t i, const at::Tensor& grad) const;

    std::vector<Parameter> parameters_;
    double lr_;
    double max_grad_norm_;
    std::int64_t steps_ = 0;
    std::int64_t skipped_ = 0;

private:
    class UpdateHook;
    // What the updates inside backward have seen so far.
    struct InBackward {
        std::vector<double> squares;  // of the gradient of each parameter; 0: none
        std::vector<bool> seen;
        bool finite = true;
        std::int64_t updated = 0;
    };
    void update_in_backward(std::size_t i);
    void remove_hooks();
    StepResult finish(StepResult result, double squares);

    std::vector<std::function<void(const StepResult&)>> hooks_;
    std::optional<InBackward> in_backward_;
};

// Collects the parameters of any module-like object with named_parameters() (LibTorch modules). 1-D
// tensors (norm weights, biases) get no weight decay unless `decay_vectors`.
template <typename Module>
std::vector<Parameter> parameters_of(const Module& module, bool decay_vectors = false) {
    std::vector<Parameter> result;
    for (const auto& item : module.named_parameters()) {
        result.push_back({item.key(), item.value(), decay_vectors || item.value().dim() > 1});
    }
    return result;
}

}  // namespace subbyte::optim
