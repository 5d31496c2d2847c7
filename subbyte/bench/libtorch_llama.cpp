// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/bench/libtorch_llama.h"

#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros_like.h>

namespace subbyte::bench {

LibtorchLlama::LibtorchLlama(const models::LlamaConfig& c, LibtorchPrecision precision)
    : config_(c), precision_(precision) {
    at::NoGradGuard no_grad;
    const std::int64_t kv = c.kv_heads * c.head_size(), q = c.heads * c.head_size();
    embedding_ = parameter({c.vocab_size, c.hidden_size});
    for (std::int64_t i = 0; i < c.layers; ++i) {
        blocks_.push_back({parameter({c.hidden_size}), parameter({q, c.hidden_size}),
                           parameter({kv, c.hidden_size}), parameter({kv, c.hidden_size}),
                           parameter({c.hidden_size, q}), parameter({c.hidden_size}),
                           parameter({c.intermediate_size, c.hidden_size}),
                           parameter({c.intermediate_size, c.hidden_size}),
                           parameter({c.hidden_size, c.intermediate_size})});
    }
    norm_ = parameter({c.hidden_size});
    head_ = c.tie_embeddings ? embedding_ : parameter({c.vocab_size, c.hidden_size});

    const std::int64_t d = c.head_size();
    const at::Tensor frequency =
        at::pow(c.rope_theta, at::arange(0, d, 2, at::kFloat).div(-static_cast<double>(d)));
    const at::Tensor angle = at::arange(c.max_position, at::kFloat).unsqueeze(1).mul(frequency);
    // [T, 1, d / 2]: one angle for all heads.
    cos_ = angle.cos().unsqueeze(1);
    sin_ = angle.sin().unsqueeze(1);
}

at::Tensor LibtorchLlama::parameter(at::IntArrayRef shape) {
    at::Tensor w = shape.size() == 1 ? at::ones(shape) : at::randn(shape).mul_(0.02);
    if (precision_ == LibtorchPrecision::kBf16) w = w.to(at::kBFloat16);
    w.requires_grad_(true);
    parameters_.push_back(w);
    first_.push_back(at::zeros_like(w));
    second_.push_back(at::zeros_like(w));
    counts_.push_back(at::scalar_tensor(0, at::kFloat));
    return w;
}

at::Tensor LibtorchLlama::linear(const at::Tensor& x, const at::Tensor& weight) const {
    if (precision_ != LibtorchPrecision::kBf16Autocast) return at::linear(x, weight);
    return at::linear(x.to(at::kBFloat16), weight.to(at::kBFloat16));
}

at::Tensor LibtorchLlama::norm(const at::Tensor& x, const at::Tensor& weight) const {
    return at::rms_norm(x, {config_.hidden_size}, weight.to(x.scalar_type()), config_.norm_eps);
}

at::Tensor LibtorchLlama::rope(const at::Tensor& x) const {
    const std::int64_t half = x.size(3) / 2, tokens = x.size(1);
    const at::Tensor cos = cos_.narrow(0, 0, tokens).to(x.scalar_type());
    const at::Tensor sin = sin_.narrow(0, 0, tokens).to(x.scalar_type());
    const at::Tensor a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
    return at::cat({a.mul(cos).sub(b.mul(sin)), b.mul(cos).add(a.mul(sin))}, 3);
}

at::Tensor LibtorchLlama::block(const at::Tensor& x, const Block& b) const {
    const auto heads = [&](const at::Tensor& y, std::int64_t count) {
        return y.view({x.size(0), x.size(1), count, config_.head_size()});
    };
    const auto for_all_heads = [&](const at::Tensor& y) {
        return config_.kv_heads == config_.heads
                   ? y
                   : y.repeat_interleave(config_.heads / config_.kv_heads, 2);
    };
    at::Tensor y = norm(x, b.norm1);
    const at::Tensor q = rope(heads(linear(y, b.q), config_.heads)).transpose(1, 2);
    const at::Tensor k =
        for_all_heads(rope(heads(linear(y, b.k), config_.kv_heads))).transpose(1, 2);
    const at::Tensor v = for_all_heads(heads(linear(y, b.v), config_.kv_heads)).transpose(1, 2);
    const at::Tensor attention = at::scaled_dot_product_attention(q, k, v, {}, 0.0, true);
    const at::Tensor h =
        x.add(linear(attention.transpose(1, 2).reshape({x.size(0), x.size(1), -1}), b.o));
    y = norm(h, b.norm2);
    return h.add(linear(at::silu(linear(y, b.gate)).mul(linear(y, b.up)), b.down));
}

void LibtorchLlama::update() {
    at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& p : parameters_) gradients.push_back(p.grad());
    for (const at::Tensor& count : counts_) count.add_(1);
    at::_fused_adamw_(parameters_, gradients, first_, second_, {}, counts_, /*lr=*/1e-4, 0.9, 0.95,
                      /*weight_decay=*/0.1, /*eps=*/1e-8, /*amsgrad=*/false, /*maximize=*/false);
    for (const at::Tensor& p : parameters_) p.mutable_grad() = at::Tensor();
}

double LibtorchLlama::step(const at::Tensor& ids, const at::Tensor& targets) {
    at::Tensor h = at::embedding(embedding_, ids);
    for (const Block& b : blocks_) h = block(h, b);
    const at::Tensor logits = linear(norm(h, norm_), head_);
    const at::Tensor loss = at::cross_entropy_loss(
        logits.reshape({-1, config_.vocab_size}).to(at::kFloat), targets.reshape({-1}));
    loss.backward();
    update();
    return loss.item<double>();
}

}  // namespace subbyte::bench
