// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/rope.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <cmath>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/core/parallel.h"
#include "subbyte/ops/threads.h"

namespace subbyte::ops {
namespace {

// Rotates by the angle of the position, backwards when `inverse` (the gradient of a rotation).
at::Tensor rotate(const at::Tensor& input, double theta, std::int64_t offset, bool inverse) {
    use_torch_threads();
    const at::Tensor x = input.contiguous();
    const std::int64_t batch = x.size(0), tokens = x.size(1), heads = x.size(2), dim = x.size(3);
    const std::int64_t half = dim / 2;
    // Angles in float32 arithmetic like the reference implementation: inv_freq, then position *
    // inv_freq.
    std::vector<float> inv_freq(static_cast<std::size_t>(half));
    for (std::int64_t j = 0; j < half; ++j) {
        inv_freq[static_cast<std::size_t>(j)] = static_cast<float>(
            1.0 / std::pow(theta, static_cast<double>(2 * j) / static_cast<double>(dim)));
    }
    at::Tensor y = at::empty_like(x);
    const float* src = x.const_data_ptr<float>();
    float* dst = y.mutable_data_ptr<float>();
    parallel_for(tokens, 4, [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> cosines(static_cast<std::size_t>(half)), sines(cosines.size());
        for (std::int64_t t = begin; t < end; ++t) {
            for (std::int64_t j = 0; j < half; ++j) {
                const auto i = static_cast<std::size_t>(j);
                const float angle = static_cast<float>(t + offset) * inv_freq[i];
                cosines[i] = std::cos(angle);
                sines[i] = inverse ? -std::sin(angle) : std::sin(angle);
            }
            for (std::int64_t b = 0; b < batch; ++b) {
                for (std::int64_t h = 0; h < heads; ++h) {
                    const std::int64_t at = ((b * tokens + t) * heads + h) * dim;
                    const float* low = src + at;
                    const float* high = low + half;
                    float* out = dst + at;
                    for (std::int64_t j = 0; j < half; ++j) {
                        const auto i = static_cast<std::size_t>(j);
                        out[j] = low[j] * cosines[i] - high[j] * sines[i];
                        out[half + j] = high[j] * cosines[i] + low[j] * sines[i];
                    }
                }
            }
        }
    });
    return y;
}

class RopeBackward : public torch::autograd::Node {
public:
    double theta = 0;
    std::int64_t offset = 0;
    std::string name() const override { return "SubbyteRopeBackward"; }
    torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
        at::NoGradGuard no_grad;
        if (!grads[0].defined()) return {at::Tensor()};
        return {rotate(grads[0], theta, offset, /*inverse=*/true)};
    }
};

}  // namespace

at::Tensor rope(const at::Tensor& x, double theta, std::int64_t offset) {
    if (x.dim() != 4 || x.size(3) % 2 != 0 || x.scalar_type() != at::kFloat) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("rope: x has {} dimensions, the last of {}", x.dim(),
                                x.dim() > 0 ? x.size(-1) : 0),
                    "x must be FP32 [batch, tokens, heads, head size] with an even head size");
    }
    at::Tensor y;
    {
        at::NoGradGuard no_grad;
        y = rotate(x, theta, offset, /*inverse=*/false);
    }
    if (at::GradMode::is_enabled() && x.requires_grad()) {
        auto node = c10::make_intrusive<RopeBackward>();
        node->theta = theta;
        node->offset = offset;
        node->set_next_edges(torch::autograd::collect_next_edges(x));
        torch::autograd::set_history(y, node);
    }
    return y;
}

}  // namespace subbyte::ops
