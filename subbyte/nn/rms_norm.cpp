// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/nn/rms_norm.h"

#include <ATen/ops/ones.h>

namespace subbyte::nn {

RmsNormImpl::RmsNormImpl(std::int64_t size, double eps) : eps_(eps) {
    weight = register_parameter("weight", at::ones({size}));
}

at::Tensor RmsNormImpl::forward(const at::Tensor& x) { return ops::rms_norm(x, weight, eps_); }

ops::NormedSum RmsNormImpl::add(const at::Tensor& x, const at::Tensor& y, ops::Keep keep) {
    return ops::add_rms_norm(x, y, weight, eps_, keep);
}

}  // namespace subbyte::nn
