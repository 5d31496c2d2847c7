// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/gradient_noise.h"

#include <ATen/ops/mm.h>

#include "subbyte/core/clock.h"
#include "subbyte/ops/reduce.h"

namespace subbyte::snip {

using plan::Slot;

void GradientNoiseSink::reset() {
    for (Layer& layer : layers_) layer = {};
    seconds_ = 0;
}

bool GradientNoiseSink::measured(std::uint32_t layer) const {
    return precision_.table()[layer].plans(Slot::kWgrad) &&
           (*precision_.recipe(layer))[Slot::kWgrad].widest_bits() < 16;
}

void GradientNoiseSink::on_forward(std::uint32_t layer, const at::Tensor& x, const at::Tensor& w,
                                   at::Tensor& y) {
    if (measured(layer)) layers_.at(layer).inputs.push_back(x);
    next_.on_forward(layer, x, w, y);
}

void GradientNoiseSink::on_discarded_forward(std::uint32_t layer, const at::Tensor& x,
                                             const at::Tensor& w, at::Tensor& y) {
    next_.on_discarded_forward(layer, x, w, y);
}

void GradientNoiseSink::on_backward(std::uint32_t layer, const at::Tensor& g, at::Tensor& dx,
                                    const at::Tensor& dw) {
    Layer& seen = layers_.at(layer);
    // Backward passes of a layer come in the order of its forward passes: one micro-batch at a
    // time.
    if (!seen.inputs.empty()) {
        const Stopwatch watch;
        const at::Tensor x = seen.inputs.front();
        seen.inputs.pop_front();
        if (dw.defined()) {
            const at::Tensor error = dw.sub(at::mm(g.t(), x));
            seen.error = seen.error.defined() ? seen.error.add_(error) : error;
        }
        seconds_ += watch.seconds();
    }
    next_.on_backward(layer, g, dx, dw);
}

std::vector<GradientNoise> GradientNoiseSink::result(const std::vector<at::Tensor>& weights) const {
    std::vector<GradientNoise> result;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
        const at::Tensor& error = layers_[l].error;
        const at::Tensor& gradient = weights[l].grad();
        if (!error.defined() || !gradient.defined()) continue;
        result.push_back({.layer = precision_.table()[l].name,
                          .gradient = ops::difference_norm(gradient, error),
                          .noise = ops::norm(error)});
    }
    return result;
}

}  // namespace subbyte::snip
