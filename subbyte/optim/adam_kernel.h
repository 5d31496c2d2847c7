// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace subbyte::optim {

// The moments of one tensor, of its shape, in the dtype of its state; undefined until the first
// update.
struct Moments {
    at::Tensor first;       // EMA of g
    at::Tensor second;      // EMA of g^2
    at::Tensor second_max;  // largest second moment so far (AMSGrad), else undefined

    bool defined() const { return first.defined(); }
    Moments clone() const;
    void zero();
};

// Dtype of states and of the arithmetic: FP64 for FP64 parameters, else FP32.
at::ScalarType state_dtype(const at::Tensor& parameter);

// Zero moments for `parameter`.
Moments zero_moments(const at::Tensor& parameter, bool amsgrad);

// The numbers of one Adam step of one tensor.
struct AdamStep {
    double decay = 1;        // W is multiplied by it first: 1 - lr * weight_decay
    double beta1 = 0;        // rates of the two averages
    double beta2 = 0;        //
    double step_size = 0;    // lr / (1 - beta1^t)
    double correction2 = 1;  // sqrt(1 - beta2^t)
    double eps = 0;
    double grad_scale = 1;  // g is multiplied by it first
};

// t counted from 1.
AdamStep adam_step(double lr, double weight_decay, double beta1, double beta2, double eps,
                   std::int64_t t);

// One Adam step with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101; the order of
// operations of torch.optim.AdamW), one pass over the elements:
//   W *= decay;  g *= grad_scale;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
//   W -= step_size m / (sqrt(v) / correction2 + eps)           AMSGrad: max of all v instead of v
// `weight`: FP32, FP64 or BF16 (computed in FP32 and rounded to nearest even); `grad`: dtype of the
// weight or of its state, same shape. The same bits for any thread count. Counts the version of
// `weight` up.
void adam_update(const at::Tensor& weight, Moments& moments, const at::Tensor& grad,
                 const AdamStep& step);

// d W_new / d (grad_scale * g), elementwise with its sign, in FP64, at the moments *before* the
// step:
//   -step_size [ (1-b1) / (s + eps) - m (1-b2) g / (correction2^2 s (s + eps)^2) ],  s =
//   sqrt(v)/correction2
// with m, v, g as in adam_update. 0 where s is 0: there the quotient is 0 / 0.
at::Tensor adam_jacobian(const Moments& moments, const at::Tensor& grad, const AdamStep& step);

}  // namespace subbyte::optim
