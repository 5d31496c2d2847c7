// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "subbyte/core/error.h"
#include "subbyte/ops/reduce.h"
#include "subbyte/optim/adam_kernel.h"
#include "subbyte/optim/option_check.h"
#include "subbyte/plan/json_reader.h"

namespace subbyte::optim {
namespace {

void check_parameters(const std::vector<Parameter>& parameters) {
    if (parameters.empty()) {
        throw Error(ErrorCode::kUsage, "optimizer without parameters",
                    "pass at least one tensor to train");
    }
    std::unordered_map<std::string, int> names;
    std::unordered_map<const void*, std::string> memory;
    for (const Parameter& parameter : parameters) {
        const at::Tensor& value = parameter.value;
        if (!value.defined()) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("parameter '{}' is undefined", parameter.name));
        }
        const auto dtype = value.scalar_type();
        const bool known = dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16;
        // An inference tensor has no version counter, by which weight caches notice updates.
        if (!known || !value.device().is_cpu() || value.layout() != at::kStrided ||
            value.is_inference()) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("parameter '{}' ({} on {}) cannot be trained", parameter.name,
                                    c10::toString(dtype), value.device().str()),
                        "use a dense FP32, FP64 or BF16 tensor on the CPU made outside "
                        "inference mode");
        }
        if (names[parameter.name]++ > 0) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("parameter '{}' appears twice", parameter.name));
        }
        if (value.numel() == 0) continue;
        const auto [other, fresh] = memory.emplace(value.const_data_ptr(), parameter.name);
        if (!fresh) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("parameters '{}' and '{}' are the same tensor", other->second,
                                    parameter.name),
                        "list a tied tensor once");
        }
    }
}

}  // namespace

Optimizer::Optimizer(std::vector<Parameter> parameters, double lr, double max_grad_norm)
    : parameters_(std::move(parameters)), lr_(lr), max_grad_norm_(max_grad_norm) {
    check_parameters(parameters_);
    check_option("lr", lr, lr >= 0, "at least 0");
    check_option("max_grad_norm", max_grad_norm, max_grad_norm >= 0, "at least 0 (0: no clipping)");
}

StepResult Optimizer::step() {
    StepResult result;
    double squares = 0;
    bool any = false;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        const at::Tensor& grad = parameters_[i].value.grad();
        if (!grad.defined()) continue;
        check_gradient(i, grad);
        any = true;
        const double square = ops::squared_norm(grad);
        if (!std::isfinite(square) && result.nonfinite.empty()) {
            result.nonfinite = parameters_[i].name;
        }
        squares += square;
    }
    if (!any) {
        throw Error(ErrorCode::kUsage, "step() without any gradient",
                    "call backward() on the loss before step()");
    }
    if (std::isfinite(squares)) {
        const double scale = clip_factor(std::sqrt(squares));
        for (std::size_t i = 0; i < parameters_.size(); ++i) {
            const at::Tensor& grad = parameters_[i].value.grad();
            if (grad.defined()) update(i, grad, scale, steps_ + 1);
        }
    }
    return finish(std::move(result), squares);
}

StepResult Optimizer::finish(StepResult result, double squares) {
    result.grad_norm = std::sqrt(squares);
    result.applied = std::isfinite(squares);
    ++(result.applied ? steps_ : skipped_);
    for (const auto& hook : hooks_) hook(result);
    return result;
}

void Optimizer::zero_grad() {
    for (Parameter& parameter : parameters_) parameter.value.mutable_grad().reset();
}

void Optimizer::set_lr(double lr) {
    check_option("lr", lr, lr >= 0, "at least 0");
    lr_ = lr;
}

void Optimizer::add_step_hook(std::function<void(const StepResult&)> hook) {
    hooks_.push_back(std::move(hook));
}

double Optimizer::clip_factor(double norm) const {
    if (max_grad_norm_ == 0) return 1;
    return std::min(1.0, max_grad_norm_ / (norm + 1e-6));
}

void Optimizer::check_gradient(std::size_t i, const at::Tensor& grad) const {
    const at::Tensor& value = parameters_.at(i).value;
    const bool usable =
        grad.defined() && grad.layout() == at::kStrided && grad.sizes() == value.sizes() &&
        (grad.scalar_type() == value.scalar_type() || grad.scalar_type() == state_dtype(value));
    if (!usable) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("gradient of '{}' does not fit its parameter", parameters_[i].name),
                    "it must be dense, of the same shape, and of the dtype of the parameter or of "
                    "its state");
    }
}

nlohmann::json Optimizer::state_numbers() const {
    return {{"optimizer", name()}, {"steps", steps_}, {"skipped", skipped_}, {"lr", lr_}};
}

void Optimizer::load_state(const NamedTensors&, const nlohmann::json& numbers) {
    const plan::JsonReader reader(numbers, "optimizer state");
    const std::int64_t steps = reader["steps"].count();
    const std::int64_t skipped = reader["skipped"].count();
    const double lr = reader["lr"].number(0);
    steps_ = steps;
    skipped_ = skipped;
    lr_ = lr;
}

}  // namespace subbyte::optim
