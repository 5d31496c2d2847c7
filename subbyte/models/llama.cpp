// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/models/llama.h"

#include <ATen/ops/full_like.h>
#include <fmt/format.h>

#include "subbyte/core/error.h"
#include "subbyte/nn/recompute.h"
#include "subbyte/ops/attention.h"
#include "subbyte/ops/linear_loss.h"
#include "subbyte/ops/sample_labels.h"
#include "subbyte/ops/swiglu_mlp.h"

namespace subbyte::models {
// The parts of a LLaMA, for this file only.
namespace llama_parts {

// A layer of a block for the ops that compute several at once; x has as many rows as its input.
ops::LinearLayer as_part(nn::Linear& layer, const ops::LayerInput& input) {
    const at::Tensor& x = input.outline();
    return {layer->weight, layer->context(x.numel() / x.size(-1))};
}

class AttentionImpl : public torch::nn::Module {
public:
    explicit AttentionImpl(const LlamaConfig& c) : config_(c) {
        const std::int64_t q = c.heads * c.head_size(), kv = c.kv_heads * c.head_size();
        q_proj_ = register_module("q_proj", nn::Linear(c.hidden_size, q));
        k_proj_ = register_module("k_proj", nn::Linear(c.hidden_size, kv));
        v_proj_ = register_module("v_proj", nn::Linear(c.hidden_size, kv));
        o_proj_ = register_module("o_proj", nn::Linear(q, c.hidden_size));
    }

    at::Tensor forward(const ops::LayerInput& input) {
        const at::Tensor& x = input.outline();
        const auto split = [&](const at::Tensor& y, std::int64_t heads) {
            return y.view({x.size(0), x.size(1), heads, config_.head_size()});
        };
        const std::vector<at::Tensor> qkv = ops::linear_group(
            input, {as_part(q_proj_, input), as_part(k_proj_, input), as_part(v_proj_, input)});
        const at::Tensor y = ops::rotary_attention(
            split(qkv[0], config_.heads), split(qkv[1], config_.kv_heads),
            split(qkv[2], config_.kv_heads), config_.rope_theta, o_proj_->compact());
        return o_proj_(y.reshape({x.size(0), x.size(1), -1}));
    }

private:
    LlamaConfig config_;
    nn::Linear q_proj_{nullptr}, k_proj_{nullptr}, v_proj_{nullptr}, o_proj_{nullptr};
};
TORCH_MODULE(Attention);

class MlpImpl : public torch::nn::Module {
public:
    explicit MlpImpl(const LlamaConfig& c) {
        gate_proj_ = register_module("gate_proj", nn::Linear(c.hidden_size, c.intermediate_size));
        up_proj_ = register_module("up_proj", nn::Linear(c.hidden_size, c.intermediate_size));
        down_proj_ = register_module("down_proj", nn::Linear(c.intermediate_size, c.hidden_size));
    }

    at::Tensor forward(const ops::LayerInput& x) {
        return ops::swiglu_mlp(x, as_part(gate_proj_, x), as_part(up_proj_, x),
                               as_part(down_proj_, x), keep());
    }
    ops::Keep keep() const { return down_proj_->keep(); }

private:
    nn::Linear gate_proj_{nullptr}, up_proj_{nullptr}, down_proj_{nullptr};
};
TORCH_MODULE(Mlp);

class BlockImpl : public torch::nn::Module {
public:
    explicit BlockImpl(const LlamaConfig& c) {
        self_attn_ = register_module("self_attn", Attention(c));
        mlp_ = register_module("mlp", Mlp(c));
        input_layernorm_ =
            register_module("input_layernorm", nn::RmsNorm(c.hidden_size, c.norm_eps));
        post_attention_layernorm_ =
            register_module("post_attention_layernorm", nn::RmsNorm(c.hidden_size, c.norm_eps));
    }

    at::Tensor forward(const at::Tensor& x) {
        const ops::NormedSum in = input_layernorm_->add(x, {}, mlp_->keep());
        const ops::NormedSum middle =
            post_attention_layernorm_->add(in.sum, self_attn_(in.normed), mlp_->keep());
        return middle.sum + mlp_(middle.normed);
    }

private:
    Attention self_attn_{nullptr};
    Mlp mlp_{nullptr};
    nn::RmsNorm input_layernorm_{nullptr}, post_attention_layernorm_{nullptr};
};
TORCH_MODULE(Block);

}  // namespace llama_parts

class LlamaImpl::Backbone : public torch::nn::Module {
public:
    explicit Backbone(const LlamaConfig& c) {
        embed_tokens = register_module("embed_tokens", nn::Embedding(c.vocab_size, c.hidden_size));
        layers_ = register_module("layers", torch::nn::ModuleList());
        for (std::int64_t i = 0; i < c.layers; ++i) {
            blocks_.push_back(llama_parts::Block(c));
            layers_->push_back(blocks_.back());
        }
        norm_ = register_module("norm", nn::RmsNorm(c.hidden_size, c.norm_eps));
    }

    at::Tensor forward(const at::Tensor& ids, bool recompute,
                       const std::shared_ptr<nn::Precision>& precision) {
        at::Tensor h = embed_tokens(ids);
        for (llama_parts::Block& block : blocks_) {
            h = recompute ? nn::recompute([block](const at::Tensor& x) mutable { return block(x); },
                                          h, precision)
                          : block(h);
        }
        return norm_(h);
    }

    nn::Embedding embed_tokens{nullptr};

private:
    torch::nn::ModuleList layers_{nullptr};
    std::vector<llama_parts::Block> blocks_;
    nn::RmsNorm norm_{nullptr};
};

LlamaImpl::LlamaImpl(const LlamaConfig& config) : config_(config) {
    check(config);
    model_ = register_module("model", std::make_shared<Backbone>(config));
    lm_head_ = register_module("lm_head", config.tie_embeddings
                                              ? nn::Linear(model_->embed_tokens->weight)
                                              : nn::Linear(config.hidden_size, config.vocab_size));
}

LlamaImpl::~LlamaImpl() = default;

at::Tensor LlamaImpl::hidden(const at::Tensor& ids) {
    if (ids.dim() != 2 || ids.size(1) > config_.max_position) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("LLaMA: input of {} dimensions, {} positions; max_position is {}",
                                ids.dim(), ids.dim() > 1 ? ids.size(1) : 0, config_.max_position),
                    "input ids must be [batch, tokens] with at most max_position tokens");
    }
    return model_->forward(ids, recompute_blocks, lm_head_->precision());
}

at::Tensor LlamaImpl::forward(const at::Tensor& ids) { return lm_head_(hidden(ids)); }

ops::SummedLoss LlamaImpl::loss(const at::Tensor& ids, const at::Tensor& targets) {
    // An observer wants to see the logits as one tensor.
    if (lm_head_->observed()) return ops::cross_entropy(forward(ids), targets);
    const at::Tensor h = hidden(ids);
    return ops::linear_cross_entropy(h, lm_head_->weight, targets,
                                     lm_head_->context(h.size(0) * h.size(1)));
}

ops::SummedLoss LlamaImpl::sampled_loss(const at::Tensor& ids, const NoiseAddress& address) {
    const at::Tensor logits = forward(ids);
    return ops::cross_entropy(logits, ops::sample_labels(logits, address));
}

at::Tensor shift_labels(const at::Tensor& labels) {
    at::Tensor targets = at::full_like(labels, ops::kIgnoredLabel);
    const std::int64_t tokens = labels.size(-1);
    if (tokens > 1) targets.narrow(-1, 0, tokens - 1).copy_(labels.narrow(-1, 1, tokens - 1));
    return targets;
}

}  // namespace subbyte::models
