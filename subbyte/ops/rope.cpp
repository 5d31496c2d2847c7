// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/rope.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
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
    const std::shared_ptr<const RopeAngles> table = rope_angles(theta, half, offset + tokens);
    const float sign = inverse ? -1.0f : 1.0f;
    at::Tensor y = at::empty_like(x);
    const float* src = x.const_data_ptr<float>();
    float* dst = y.mutable_data_ptr<float>();
    parallel_for(batch * tokens, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t at = (offset + row % tokens) * half;
            const float* cosines = table->cosines.data() + at;
            const float* sines = table->sines.data() + at;
            for (std::int64_t h = 0; h < heads; ++h) {
                const float* low = src + (row * heads + h) * dim;
                const float* high = low + half;
                float* out = dst + (row * heads + h) * dim;
                for (std::int64_t j = 0; j < half; ++j) {
                    const float sine = sign * sines[j];
                    out[j] = low[j] * cosines[j] - high[j] * sine;
                    out[half + j] = high[j] * cosines[j] + low[j] * sine;
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

// Tables are kept for the life of the process and grow in powers of two: a model has one.
std::shared_ptr<const RopeAngles> rope_angles(double theta, std::int64_t half,
                                              std::int64_t tokens) {
    static std::mutex mutex;
    static std::map<std::pair<double, std::int64_t>, std::shared_ptr<const RopeAngles>> tables;
    const std::lock_guard lock(mutex);
    std::shared_ptr<const RopeAngles>& table = tables[{theta, half}];
    if (table && table->tokens >= tokens) return table;
    auto made = std::make_shared<RopeAngles>();
    tokens = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(tokens)));
    made->tokens = tokens;
    // In float32 arithmetic like the reference implementation: inv_freq, then position * inv_freq.
    for (std::int64_t t = 0; t < tokens; ++t) {
        for (std::int64_t j = 0; j < half; ++j) {
            const auto inv_freq = static_cast<float>(
                1.0 / std::pow(theta, static_cast<double>(j) / static_cast<double>(half)));
            const float angle = static_cast<float>(t) * inv_freq;
            made->cosines.push_back(std::cos(angle));
            made->sines.push_back(std::sin(angle));
        }
    }
    table = std::move(made);
    return table;
}

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
