// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <optional>
#include <utility>

#include "subbyte/core/cpu.h"
#include "subbyte/core/error.h"
#include "subbyte/kernels/attention/attention.h"
#include "subbyte/ops/rope.h"
#include "subbyte/ops/threads.h"

namespace subbyte::ops {
namespace {

// Repeats every key/value head for the query heads of its group: [B, T, G, D] -> [B, T, H, D].
at::Tensor repeat_heads(const at::Tensor& x, std::int64_t heads) {
    const std::int64_t groups = x.size(2);
    if (groups == heads) return x;
    return x.unsqueeze(3)
        .expand({x.size(0), x.size(1), groups, heads / groups, x.size(3)})
        .reshape({x.size(0), x.size(1), heads, x.size(3)});
}

// What a forward pass keeps: BF16 [B, H, T, D] and FP32 [B, H, T].
struct Kept {
    at::Tensor q, k, v, log_sums;

    explicit Kept(const at::Tensor& x) {
        const at::TensorOptions plain = x.options().requires_grad(false);
        for (at::Tensor* t : {&q, &k, &v}) {
            *t =
                at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, plain.dtype(at::kBFloat16));
        }
        log_sums = at::empty({x.size(0), x.size(2), x.size(1)}, plain);
    }

    kernels::AttentionCopies view() const {
        const auto halves = [](const at::Tensor& t) {
            return static_cast<std::uint16_t*>(t.mutable_data_ptr());
        };
        return {halves(q), halves(k), halves(v), log_sums.mutable_data_ptr<float>()};
    }
    kernels::AttentionShape shape() const { return {q.size(0), q.size(2), q.size(1), q.size(3)}; }
};

kernels::Rotary rotary(const std::shared_ptr<const RopeAngles>& angles) {
    if (!angles) return {};
    return {angles->cosines.data(), angles->sines.data()};
}

class AttentionBackward : public torch::autograd::Node {
public:
    std::optional<Kept> kept;
    std::shared_ptr<const RopeAngles> angles;  // null: no rotation

    std::string name() const override { return "SubbyteAttentionBackward"; }
    void release_variables() override { kept.reset(); }

    torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
        at::NoGradGuard no_grad;
        if (!grads[0].defined()) return torch::autograd::variable_list(3);
        if (!kept) {
            throw Error(ErrorCode::kUsage, "backward was called twice through the same attention",
                        "run the forward pass again before the second backward");
        }
        const at::Tensor g = grads[0].contiguous();
        at::Tensor dq = at::empty_like(g), dk = at::empty_like(g), dv = at::empty_like(g);
        kernels::attention_backward(kept->shape(), rotary(angles), kept->view(),
                                    g.const_data_ptr<float>(), dq.mutable_data_ptr<float>(),
                                    dk.mutable_data_ptr<float>(), dv.mutable_data_ptr<float>());
        return {dq, dk, dv};
    }
};

// All of [B, T, H, D]; rotated where there are angles.
at::Tensor bf16_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const std::shared_ptr<const RopeAngles>& angles = nullptr) {
    at::Tensor y;
    std::optional<Kept> kept;
    {
        at::NoGradGuard no_grad;
        use_torch_threads();
        const at::Tensor a = q.contiguous(), b = k.contiguous(), c = v.contiguous();
        y = at::empty_like(a, a.options().requires_grad(false));
        kept.emplace(a);
        kernels::attention(kept->shape(), rotary(angles), a.const_data_ptr<float>(),
                           b.const_data_ptr<float>(), c.const_data_ptr<float>(), kept->view(),
                           y.mutable_data_ptr<float>());
    }
    if (at::GradMode::is_enabled() &&
        (q.requires_grad() || k.requires_grad() || v.requires_grad())) {
        auto node = c10::make_intrusive<AttentionBackward>();
        node->kept = std::move(kept);
        node->angles = angles;
        node->set_next_edges(torch::autograd::collect_next_edges(q, k, v));
        torch::autograd::set_history(y, node);
    }
    return y;
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            bool compact) {
    const std::int64_t heads = q.size(2), groups = k.size(2);
    if (groups == 0 || heads % groups != 0) {
        throw Error(
            ErrorCode::kUsage,
            fmt::format("attention: {} query heads cannot share {} key/value heads", heads, groups),
            "the number of key/value heads must divide the number of heads");
    }
    if (compact && has_bf16_dot()) {
        return bf16_attention(q, repeat_heads(k, heads), repeat_heads(v, heads));
    }
    const auto heads_first = [&](const at::Tensor& x) {
        return repeat_heads(x, heads).transpose(1, 2);
    };
    const at::Tensor y = at::scaled_dot_product_attention(
        heads_first(q), heads_first(k), heads_first(v), {}, 0.0, /*is_causal=*/true);
    return y.transpose(1, 2);
}

at::Tensor rotary_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            double theta, bool compact) {
    if (compact && has_bf16_dot() && q.sizes() == k.sizes() && q.dim() == 4 && q.size(3) % 2 == 0) {
        return bf16_attention(q, k, v, rope_angles(theta, q.size(3) / 2, q.size(1)));
    }
    return causal_attention(rope(q, theta), rope(k, theta), v, compact);
}

}  // namespace subbyte::ops
