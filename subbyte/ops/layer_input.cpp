// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/layer_input.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "subbyte/core/parallel.h"
#include "subbyte/ops/threads.h"

namespace subbyte::ops {

const at::Tensor& LayerInput::tensor() const {
    if (values_ == nullptr) return outline_;
    if (whole_.defined()) return whole_;
    use_torch_threads();
    const at::Tensor x = at::empty(outline_.sizes(), outline_.options().requires_grad(false));
    auto* const data = x.mutable_data_ptr<float>();
    const std::int64_t cols = values_->cols;
    parallel_for(values_->rows, 16, [&](std::int64_t begin, std::int64_t end) {
        float* const out[] = {data + begin * cols};
        values_->compute({begin, end, 0, cols}, out, cols);
    });
    if (outline_.grad_fn() != nullptr) {
        torch::autograd::impl::set_gradient_edge(
            x, {outline_.grad_fn(), static_cast<std::uint32_t>(outline_.output_nr())});
    }
    whole_ = x;
    return whole_;
}

}  // namespace subbyte::ops
