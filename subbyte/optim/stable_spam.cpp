// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/optim/stable_spam.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "subbyte/core/parallel.h"
#include "subbyte/ops/reduce.h"
#include "subbyte/optim/option_check.h"
#include "subbyte/optim/state_reader.h"

namespace subbyte::optim {
namespace {

const char* compat_name(StableSpamCompat compat) {
    return compat == StableSpamCompat::kOfficial ? "official" : "clean";
}

// Average of `count` samples since 0, without the bias toward 0.
double debiased(double average, double rate, std::int64_t count) {
    return average / (1 - std::pow(rate, static_cast<double>(count)));
}

template <typename G, typename T>
void clip_range(const G* grad, T* out, T limit, T largest, std::int64_t count) {
    for (std::int64_t j = 0; j < count; ++j) {
        const T g = static_cast<T>(grad[j]);
        out[j] = std::fabs(g) > limit ? g / largest * limit : g;
    }
}

// AdaClip: a copy of `grad` in the dtype of its state, entries above `limit` shrunk by limit /
// largest.
at::Tensor clip_entries(const at::Tensor& grad, double limit, double largest) {
    const at::Tensor g = grad.contiguous();
    at::Tensor out = at::empty(g.sizes(), state_dtype(g));
    const auto clip = [&]<typename G, typename T>(G, T) {
        const G* from = g.const_data_ptr<G>();
        T* to = out.mutable_data_ptr<T>();
        parallel_for(g.numel(), 16384, [&](std::int64_t begin, std::int64_t end) {
            clip_range(from + begin, to + begin, static_cast<T>(limit), static_cast<T>(largest),
                       end - begin);
        });
    };
    if (g.scalar_type() == at::kDouble) {
        clip(double{}, double{});
    } else if (g.scalar_type() == at::kFloat) {
        clip(float{}, float{});
    } else {
        clip(at::BFloat16{}, float{});
    }
    return out;
}

}  // namespace

StableSpam::StableSpam(std::vector<Parameter> parameters, const StableSpamOptions& options)
    : Optimizer(std::move(parameters), options.lr, options.max_grad_norm),
      options_(options),
      states_(parameters_.size()) {
    check_rate("beta1", options.beta1);
    check_rate("beta2", options.beta2);
    check_eps(options.eps);
    check_option("weight_decay", options.weight_decay, options.weight_decay >= 0, "at least 0");
    const double gamma1 = options.gamma1;
    check_option("gamma1", gamma1, gamma1 == -1 || (gamma1 >= 0 && gamma1 < 1),
                 "in [0, 1), or -1 for beta1");
    check_rate("gamma2", options.gamma2);
    check_rate("gamma3", options.gamma3);
    check_option("update_gap", static_cast<double>(options.update_gap), options.update_gap >= 0,
                 "at least 0 (0: no reset)");
    check_option("total_steps", static_cast<double>(options.total_steps), options.total_steps >= 0,
                 "at least 0 (0: no schedule)");
    check_option("eta_min", options.eta_min, options.eta_min >= 0 && options.eta_min <= 1,
                 "in [0, 1]");
}

double StableSpam::beta_scale(std::int64_t t) const {
    const std::int64_t total = options_.total_steps;
    if (total == 0) return 1;
    if (options_.compat == StableSpamCompat::kClean) t = std::min(t, total);
    const double angle = std::numbers::pi * static_cast<double>(t) / static_cast<double>(total + 1);
    return options_.eta_min + (1 - options_.eta_min) * (1 + std::cos(angle)) / 2;
}

StableSpam::Prepared StableSpam::prepare(std::size_t i, Statistics& statistics,
                                         const at::Tensor& grad, std::int64_t t) const {
    const bool official = options_.compat == StableSpamCompat::kOfficial;
    const bool reset = options_.update_gap > 0 && t % options_.update_gap == 0;
    const double s = beta_scale(t);
    Prepared result{grad, 0, 1, {}, reset && !official, reset && official};

    ++statistics.k_stat;
    if (options_.adaclip) {
        const double largest = ops::abs_max(grad);
        const double rate = options_.gamma3;
        statistics.largest = rate * statistics.largest + (1 - rate) * largest;
        const double limit = debiased(statistics.largest, rate, statistics.k_stat);
        if (largest > limit) {
            result.clip_limit = limit;
            result.clip_ratio = limit / largest;
            result.grad = clip_entries(grad, limit, largest);
        }
    }
    double grad_scale = 1;
    if (options_.adagn) {
        const double n = ops::norm(result.grad);
        const double rate1 = (options_.gamma1 == -1 ? options_.beta1 : options_.gamma1) * s;
        const double rate2 = options_.gamma2;
        statistics.norm = rate1 * statistics.norm + (1 - rate1) * n;
        statistics.squared_norm = rate2 * statistics.squared_norm + (1 - rate2) * n * n;
        const double mean = debiased(statistics.norm, rate1, statistics.k_stat);
        const double square = debiased(statistics.squared_norm, rate2, statistics.k_stat);
        if (n > 0) grad_scale = mean / (std::sqrt(square) + options_.eps) / n;
    }
    if (official) {
        if (reset) statistics.k_stat = 1;
        statistics.k_adam = statistics.k_stat;
    } else {
        statistics.k_adam = reset ? 1 : statistics.k_adam + 1;
    }
    result.adam = adam_step(lr_, parameters_[i].decay ? options_.weight_decay : 0,
                            options_.beta1 * s, options_.beta2, options_.eps, statistics.k_adam);
    result.adam.grad_scale = grad_scale;
    return result;
}

void StableSpam::advance(std::size_t i, State& state, const at::Tensor& weight,
                         const at::Tensor& grad, std::int64_t t) const {
    if (!state.moments.defined()) state.moments = zero_moments(weight, options_.amsgrad);
    const Prepared prepared = prepare(i, state.statistics, grad, t);
    if (prepared.reset_before) state.moments.zero();
    adam_update(weight, state.moments, prepared.grad, prepared.adam);
    if (prepared.reset_after) {
        state.moments.first.zero_();
        state.moments.second.zero_();
    }
}

void StableSpam::update(std::size_t i, const at::Tensor& grad, double scale, std::int64_t t) {
    const at::NoGradGuard no_grad;
    const at::Tensor clipped = scale == 1 ? grad : grad.to(state_dtype(grad)).mul(scale);
    advance(i, states_[i], parameters_[i].value, clipped, t);
}

at::Tensor StableSpam::preview(std::size_t i, const at::Tensor& grad) const {
    check_gradient(i, grad);
    const at::NoGradGuard no_grad;
    at::Tensor weight = parameters_[i].value.detach().clone();
    State copy{states_[i].moments.clone(), states_[i].statistics};
    advance(i, copy, weight, grad, steps_ + 1);
    return weight;
}

double StableSpam::update_sensitivity(std::size_t i, const at::Tensor& grad) const {
    check_gradient(i, grad);
    const at::NoGradGuard no_grad;
    Statistics statistics = states_[i].statistics;
    const Prepared prepared = prepare(i, statistics, grad, steps_ + 1);
    const bool fresh = prepared.reset_before || !states_[i].moments.defined();
    const Moments moments =
        fresh ? zero_moments(parameters_[i].value, options_.amsgrad) : states_[i].moments;
    at::Tensor jacobian = adam_jacobian(moments, prepared.grad, prepared.adam);
    if (prepared.clip_ratio != 1) {
        const at::Tensor clipped = at::abs(grad.to(state_dtype(grad))).gt(prepared.clip_limit);
        jacobian = at::where(clipped, jacobian.mul(prepared.clip_ratio), jacobian);
    }
    return prepared.adam.grad_scale * ops::norm(jacobian);
}

NamedTensors StableSpam::state_tensors() const { return moment_tensors(parameters_, states_); }

nlohmann::json StableSpam::state_numbers() const {
    nlohmann::json numbers = Optimizer::state_numbers();
    numbers["compat"] = compat_name(options_.compat);
    nlohmann::json& saved = numbers["parameters"] = nlohmann::json::object();
    for (std::size_t i = 0; i < states_.size(); ++i) {
        if (!states_[i].moments.defined()) continue;
        const Statistics& s = states_[i].statistics;
        saved[parameters_[i].name] = {{"k_stat", s.k_stat},
                                      {"k_adam", s.k_adam},
                                      {"T", s.largest},
                                      {"mu", s.norm},
                                      {"nu", s.squared_norm}};
    }
    return numbers;
}

void StableSpam::load_state(const NamedTensors& tensors, const nlohmann::json& numbers) {
    StateReader reader(tensors, numbers, name());
    const std::string& compat = plan::JsonReader(numbers, "optimizer state")["compat"].text();
    if (compat != compat_name(options_.compat)) {
        throw Error(ErrorCode::kData,
                    fmt::format("optimizer state: saved with compat '{}', cannot be continued with "
                                "'{}'",
                                compat, compat_name(options_.compat)),
                    "the two count updates differently; keep compat as it was");
    }
    std::vector<State> states = reader.states<State>(
        parameters_, options_.amsgrad, [](const plan::JsonReader& saved, State& state) {
            saved.allow({"k_stat", "k_adam", "T", "mu", "nu"});
            state.statistics = {saved["k_stat"].count(), saved["k_adam"].count(),
                                saved["T"].number(), saved["mu"].number(), saved["nu"].number()};
        });
    Optimizer::load_state(tensors, numbers);
    states_ = std::move(states);
}

}  // namespace subbyte::optim
