// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>

#include "subbyte/nn/precision.h"
#include "subbyte/ops/linear.h"

namespace subbyte::nn {

// Linear layer whose three GEMMs run in the precision of the model's plan. FP32 master weight [N,
// K]. Without attach() it computes in FP32.
class LinearImpl : public torch::nn::Module {
public:
    // The weight is zero until nn::initialize() draws it or a checkpoint fills it.
    LinearImpl(std::int64_t in_features, std::int64_t out_features, bool with_bias = false);

    // A layer that multiplies with a weight owned by another module (tied embedding and head). The
    // weight is not registered here, so it is trained and saved once, under its owner's name.
    explicit LinearImpl(const at::Tensor& shared_weight);

    // x: [..., in_features] -> [..., out_features].
    at::Tensor forward(const at::Tensor& x);

    // What the layer's GEMMs need to know for an input of this many rows, now.
    ops::LinearContext context(std::int64_t rows);

    const std::shared_ptr<Precision>& precision() const { return precision_; }

    // Whether somebody looks at this layer's tensors. Layers that no plan changes are left alone.
    bool observed() const;

    // Whether attention may compute in BF16: not in a model that computes in FP32.
    bool compact() const { return precision_ && precision_->compact(); }
    // What the ops around the layer keep of their inputs for backward.
    ops::Keep keep() const { return precision_ ? precision_->keep() : ops::Keep::kFp32; }

    // Connects the layer to the precision table of its model as layer number `layer`.
    void attach(std::shared_ptr<Precision> precision, std::uint32_t layer);

    std::int64_t in_features() const { return weight.size(1); }
    std::int64_t out_features() const { return weight.size(0); }

    at::Tensor weight, bias;
    ops::WeightCache cache;

private:
    std::shared_ptr<Precision> precision_;
    std::uint32_t layer_ = 0;
};
TORCH_MODULE(Linear);

}  // namespace subbyte::nn
