// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/nn/linear.h"

#include <ATen/ops/zeros.h>

namespace subbyte::nn {
namespace {

std::shared_ptr<const plan::Recipe> unattached_recipe() {
    static const auto recipe = std::make_shared<const plan::Recipe>(plan::find_recipe("fp32"));
    return recipe;
}

}  // namespace

LinearImpl::LinearImpl(std::int64_t in_features, std::int64_t out_features, bool with_bias) {
    weight = register_parameter("weight", at::zeros({out_features, in_features}));
    if (with_bias) bias = register_parameter("bias", at::zeros({out_features}));
}

LinearImpl::LinearImpl(const at::Tensor& shared_weight) : weight(shared_weight) {}

ops::LinearContext LinearImpl::context(std::int64_t rows) {
    ops::LinearContext context;
    context.cache = &cache;
    if (!precision_) {
        context.recipe = unattached_recipe();
        return context;
    }
    context.recipe = precision_->recipe(layer_);
    context.seed = precision_->seed;
    context.step = precision_->step;
    context.layer = layer_;
    context.micro_batch = precision_->micro_batch;
    context.adds_gradients = precision_->micro_batch > 0;
    if (observed()) context.observer = precision_->observer;
    context.discarded = precision_->discarded;
    precision_->set_tokens(layer_, rows * (precision_->micro_batch + 1));
    return context;
}

bool LinearImpl::observed() const {
    return precision_ && precision_->observer != nullptr && precision_->table()[layer_].candidate;
}

at::Tensor LinearImpl::forward(const at::Tensor& x) {
    const std::int64_t rows = x.dim() > 0 && x.size(-1) > 0 ? x.numel() / x.size(-1) : 0;
    const at::Tensor y = ops::linear(x, weight, context(rows));
    return bias.defined() ? y + bias : y;
}

void LinearImpl::attach(std::shared_ptr<Precision> precision, std::uint32_t layer) {
    precision_ = std::move(precision);
    layer_ = layer;
}

}  // namespace subbyte::nn
