// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <fmt/format.h>

#include "subbyte/core/cpu.h"
#include "subbyte/core/error.h"

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
    const at::ScalarType type = compact && has_bf16_dot() ? at::kBFloat16 : at::kFloat;
    const auto heads_first = [&](const at::Tensor& x) {
        return repeat_heads(x.to(type), heads).transpose(1, 2);
    };
    const at::Tensor y = at::scaled_dot_product_attention(
        heads_first(q), heads_first(k), heads_first(v), {}, 0.0, /*is_causal=*/true);
    return y.transpose(1, 2).to(at::kFloat);
}

}  // namespace subbyte::ops
