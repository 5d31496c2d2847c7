// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/nn/init.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include "subbyte/ops/gaussian.h"

namespace subbyte::nn {

void initialize(torch::nn::Module& model, std::uint64_t seed, double std) {
    constexpr std::uint32_t kInitStep = 0xFFFFFFFF;  // no training step has this number
    at::NoGradGuard no_grad;
    std::uint32_t ordinal = 0;
    for (const auto& item : model.named_parameters()) {
        at::Tensor parameter = item.value();
        if (parameter.dim() >= 2) {
            parameter.copy_(
                ops::gaussian(parameter.sizes(), {seed, kInitStep, ordinal, 0}).mul_(std));
        }
        ++ordinal;
    }
}

}  // namespace subbyte::nn
