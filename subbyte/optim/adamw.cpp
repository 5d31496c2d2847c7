// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/optim/adamw.h"

#include "subbyte/ops/reduce.h"
#include "subbyte/optim/option_check.h"
#include "subbyte/optim/state_reader.h"

namespace subbyte::optim {

AdamW::AdamW(std::vector<Parameter> parameters, const AdamWOptions& options)
    : Optimizer(std::move(parameters), options.lr, options.max_grad_norm),
      options_(options),
      states_(parameters_.size()) {
    check_rate("beta1", options.beta1);
    check_rate("beta2", options.beta2);
    check_eps(options.eps);
    check_option("weight_decay", options.weight_decay, options.weight_decay >= 0, "at least 0");
}

AdamStep AdamW::next_step(std::size_t i) const {
    return adam_step(lr_, parameters_[i].decay ? options_.weight_decay : 0, options_.beta1,
                     options_.beta2, options_.eps, states_[i].count + 1);
}

Moments AdamW::moments_copy(std::size_t i) const {
    const Moments& moments = states_[i].moments;
    return moments.defined() ? moments.clone()
                             : zero_moments(parameters_[i].value, options_.amsgrad);
}

void AdamW::update(std::size_t i, const at::Tensor& grad, double scale, std::int64_t /*t*/) {
    State& state = states_[i];
    if (!state.moments.defined()) {
        state.moments = zero_moments(parameters_[i].value, options_.amsgrad);
    }
    AdamStep step = next_step(i);
    step.grad_scale = scale;
    adam_update(parameters_[i].value, state.moments, grad, step);
    ++state.count;
}

at::Tensor AdamW::preview(std::size_t i, const at::Tensor& grad) const {
    check_gradient(i, grad);
    at::Tensor weight = parameters_[i].value.detach().clone();
    Moments moments = moments_copy(i);
    adam_update(weight, moments, grad, next_step(i));
    return weight;
}

double AdamW::update_sensitivity(std::size_t i, const at::Tensor& grad) const {
    check_gradient(i, grad);
    const Moments& moments = states_[i].moments;
    const AdamStep step = next_step(i);
    if (moments.defined()) return ops::norm(adam_jacobian(moments, grad, step));
    return ops::norm(
        adam_jacobian(zero_moments(parameters_[i].value, options_.amsgrad), grad, step));
}

NamedTensors AdamW::state_tensors() const { return moment_tensors(parameters_, states_); }

nlohmann::json AdamW::state_numbers() const {
    nlohmann::json numbers = Optimizer::state_numbers();
    nlohmann::json& saved = numbers["parameters"] = nlohmann::json::object();
    for (std::size_t i = 0; i < states_.size(); ++i) {
        if (states_[i].count > 0) saved[parameters_[i].name] = {{"count", states_[i].count}};
    }
    return numbers;
}

void AdamW::load_state(const NamedTensors& tensors, const nlohmann::json& numbers) {
    std::vector<State> states = StateReader(tensors, numbers, name())
                                    .states<State>(parameters_, options_.amsgrad,
                                                   [](const plan::JsonReader& saved, State& state) {
                                                       saved.allow({"count"});
                                                       state.count = saved["count"].count();
                                                   });
    Optimizer::load_state(tensors, numbers);
    states_ = std::move(states);
}

}  // namespace subbyte::optim
