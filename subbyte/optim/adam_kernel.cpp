// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/optim/adam_kernel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "subbyte/core/parallel.h"
#include "subbyte/ops/threads.h"
#include "subbyte/optim/adam_loops.h"

namespace subbyte::optim {
namespace {

constexpr std::int64_t kGrain = 16384;  // elements a thread takes at least

template <typename T>
AdamScalars<T> scalars_of(const AdamStep& step) {
    return {.decay = static_cast<T>(step.decay),
            .beta1 = static_cast<T>(step.beta1),
            .rest1 = static_cast<T>(1 - step.beta1),
            .beta2 = static_cast<T>(step.beta2),
            .rest2 = static_cast<T>(1 - step.beta2),
            .step_size = static_cast<T>(step.step_size),
            .inverse_correction2 = static_cast<T>(1 / step.correction2),
            .eps = static_cast<T>(step.eps),
            .grad_scale = static_cast<T>(step.grad_scale)};
}

template <typename W, typename G, typename T>
void update_tensor(AdamLoops::Update<W, G, T> loop, const at::Tensor& weight, Moments& moments,
                   const at::Tensor& grad, const AdamStep& step) {
    const AdamScalars<T> scalars = scalars_of<T>(step);
    const bool amsgrad = moments.second_max.defined();
    W* w = static_cast<W*>(weight.mutable_data_ptr());
    T* m = moments.first.mutable_data_ptr<T>();
    T* v = moments.second.mutable_data_ptr<T>();
    T* v_max = amsgrad ? moments.second_max.mutable_data_ptr<T>() : nullptr;
    const G* g = static_cast<const G*>(grad.const_data_ptr());
    parallel_for(weight.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        loop({w + begin, m + begin, v + begin, amsgrad ? v_max + begin : nullptr, g + begin,
              end - begin},
             scalars);
    });
}

template <typename G, typename T>
void jacobian_tensor(const Moments& moments, const at::Tensor& grad, const AdamStep& c,
                     double* out) {
    const T* m = moments.first.const_data_ptr<T>();
    const T* v = moments.second.const_data_ptr<T>();
    const T* v_max =
        moments.second_max.defined() ? moments.second_max.const_data_ptr<T>() : nullptr;
    const G* g = grad.const_data_ptr<G>();
    parallel_for(grad.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const double x = static_cast<double>(g[i]) * c.grad_scale;
            const double first = c.beta1 * static_cast<double>(m[i]) + (1 - c.beta1) * x;
            double second = c.beta2 * static_cast<double>(v[i]) + (1 - c.beta2) * x * x;
            // Where the old maximum stays in force the denominator does not depend on g.
            const bool fixed = v_max != nullptr && static_cast<double>(v_max[i]) > second;
            if (fixed) second = static_cast<double>(v_max[i]);
            const double s = std::sqrt(second) / c.correction2;
            if (s == 0) {
                out[i] = 0;
                continue;
            }
            const double direct = (1 - c.beta1) / (s + c.eps);
            const double through_second =
                fixed ? 0
                      : first * (1 - c.beta2) * x /
                            (c.correction2 * c.correction2 * s * (s + c.eps) * (s + c.eps));
            out[i] = -c.step_size * (direct - through_second);
        }
    });
}

}  // namespace

Moments Moments::clone() const {
    Moments copy;
    if (first.defined()) copy.first = first.clone();
    if (second.defined()) copy.second = second.clone();
    if (second_max.defined()) copy.second_max = second_max.clone();
    return copy;
}

void Moments::zero() {
    first.zero_();
    second.zero_();
    if (second_max.defined()) second_max.zero_();
}

at::ScalarType state_dtype(const at::Tensor& parameter) {
    return parameter.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Moments zero_moments(const at::Tensor& parameter, bool amsgrad) {
    const auto make = [&] { return at::zeros(parameter.sizes(), state_dtype(parameter)); };
    Moments moments{make(), make(), {}};
    if (amsgrad) moments.second_max = make();
    return moments;
}

AdamStep adam_step(double lr, double weight_decay, double beta1, double beta2, double eps,
                   std::int64_t t) {
    const double count = static_cast<double>(t);
    AdamStep step;
    step.decay = 1 - lr * weight_decay;
    step.beta1 = beta1;
    step.beta2 = beta2;
    step.step_size = lr / (1 - std::pow(beta1, count));
    step.correction2 = std::sqrt(1 - std::pow(beta2, count));
    step.eps = eps;
    return step;
}

void adam_update(const at::Tensor& weight, Moments& moments, const at::Tensor& grad,
                 const AdamStep& step) {
    ops::use_torch_threads();
    const at::NoGradGuard no_grad;
    const at::Tensor w = weight.contiguous();
    const at::Tensor g = grad.contiguous();
    const AdamLoops& loops = adam_loops();
    if (w.scalar_type() == at::kDouble) {
        update_tensor(loops.fp64, w, moments, g, step);
    } else if (w.scalar_type() == at::kFloat) {
        update_tensor(loops.fp32, w, moments, g, step);
    } else if (g.scalar_type() == at::kBFloat16) {
        update_tensor(loops.bf16, w, moments, g, step);
    } else {
        update_tensor(loops.bf16_fp32_grad, w, moments, g, step);
    }
    if (weight.is_contiguous()) {
        // Writes through a raw pointer are not seen by the version counter, on which caches of
        // quantised weights rely.
        weight.unsafeGetTensorImpl()->bump_version();
    } else {
        weight.copy_(w);
    }
}

at::Tensor adam_jacobian(const Moments& moments, const at::Tensor& grad, const AdamStep& step) {
    ops::use_torch_threads();
    const at::Tensor g = grad.contiguous();
    at::Tensor out = at::empty(g.sizes(), at::kDouble);
    double* data = out.mutable_data_ptr<double>();
    if (g.scalar_type() == at::kDouble) {
        jacobian_tensor<double, double>(moments, g, step, data);
    } else if (g.scalar_type() == at::kFloat) {
        jacobian_tensor<float, float>(moments, g, step, data);
    } else {
        jacobian_tensor<at::BFloat16, float>(moments, g, step, data);
    }
    return out;
}

}  // namespace subbyte::optim
