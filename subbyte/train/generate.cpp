// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/generate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "subbyte/core/error.h"
#include "subbyte/core/philox.h"

namespace subbyte::train {
namespace {

// Inverse of the cumulative distribution over the top-k tokens at u in [0, 1).
std::int64_t sample(const float* logits, std::int64_t count, const SamplingOptions& options,
                    double u) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    const std::int64_t kept = options.top_k > 0 ? std::min(options.top_k, count) : count;
    // Ties go to the lower id, so that the choice does not depend on the sort.
    std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](auto a, auto b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    });
    if (options.temperature == 0) return order[0];
    std::vector<double> weight(static_cast<std::size_t>(kept));
    double total = 0;
    for (std::int64_t i = 0; i < kept; ++i) {
        const auto at = static_cast<std::size_t>(i);
        weight[at] =
            std::exp((double(logits[order[at]]) - double(logits[order[0]])) / options.temperature);
        total += weight[at];
    }
    double left = u * total;
    for (std::size_t i = 0; i < weight.size(); ++i) {
        left -= weight[i];
        if (left < 0) return order[i];
    }
    return order[weight.size() - 1];
}

}  // namespace

std::vector<std::int64_t> generate(models::Llama& model, std::vector<std::int64_t> prompt,
                                   const SamplingOptions& options) {
    if (prompt.empty()) {
        throw Error(ErrorCode::kUsage, "generate: the prompt has no token",
                    "give a few words to continue");
    }
    if (options.tokens < 0 || options.top_k < 0 || options.vocabulary < 0 ||
        !(options.temperature >= 0) || !std::isfinite(options.temperature)) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("generate: tokens {}, top_k {}, temperature {}", options.tokens,
                                options.top_k, options.temperature),
                    "none of them may be negative");
    }
    at::NoGradGuard no_grad;
    std::vector<std::int64_t> context = std::move(prompt), result;
    for (std::int64_t i = 0; i < options.tokens; ++i) {
        const auto length = static_cast<std::int64_t>(context.size());
        const std::int64_t window = std::min(length, model->config().max_position);
        const at::Tensor ids = at::tensor(at::IntArrayRef(context.data() + length - window,
                                                          static_cast<std::size_t>(window)),
                                          at::TensorOptions().dtype(at::kLong))
                                   .view({1, window});
        const at::Tensor last = model->forward(ids).select(1, window - 1).view({-1}).contiguous();
        const float* logits = last.const_data_ptr<float>();
        const std::int64_t count =
            options.vocabulary > 0 ? std::min(options.vocabulary, last.numel()) : last.numel();
        if (!std::all_of(logits, logits + count, [](float x) { return std::isfinite(x); })) {
            throw Error(
                ErrorCode::kData,
                fmt::format("generate: the model gives logits that are no numbers (new token {})",
                            i),
                "its training diverged; take an earlier checkpoint");
        }
        const PhiloxBlock bits =
            noise_block({options.seed, 0, 0, 0}, static_cast<std::uint64_t>(i));
        const std::int64_t id =
            sample(logits, count, options, static_cast<double>(bits[0]) * 0x1p-32);
        if (id == options.stop_id) break;
        context.push_back(id);
        result.push_back(id);
    }
    return result;
}

}  // namespace subbyte::train
