// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>

#include "subbyte/kernels/quantize/quantize.h"

namespace subbyte::ops {

// X [..., K], FP32, of layers that read the same one. It is a tensor, or it is computed where it is
// quantised and becomes a tensor only for those who ask for one.
class LayerInput {
public:
    LayerInput(at::Tensor x) : outline_(std::move(x)) {}  // NOLINT(google-explicit-constructor)
    // `outline` has the shape and the place in the autograd graph, but no values: those are
    // `values`, one matrix of K columns.
    LayerInput(at::Tensor outline, kernels::ComputedMatrices values)
        : outline_(std::move(outline)),
          values_(std::make_shared<kernels::ComputedMatrices>(std::move(values))) {}

    // For shape and graph; whoever reads its elements wants tensor().
    const at::Tensor& outline() const { return outline_; }
    const kernels::ComputedMatrices* values() const { return values_.get(); }  // null: a tensor
    // The values with their place in the graph; computed at the first call, the same bits.
    const at::Tensor& tensor() const;

private:
    at::Tensor outline_;
    std::shared_ptr<const kernels::ComputedMatrices> values_;
    mutable at::Tensor whole_;
};

}  // namespace subbyte::ops
