// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <vector>

#include "subbyte/nn/precision.h"
#include "subbyte/snip/noise_guard.h"

namespace subbyte::snip {

// Measures the noise of the weight gradients while an ordinary iteration runs: multiplies G^T X of
// every candidate with a quantised wgrad once more in FP32 and sums the difference over the
// micro-batches. Passes everything on to another observer. Costs one GEMM per layer, the inputs X
// until their backward pass, and one FP32 matrix of the weight's size per layer.
class GradientNoiseSink : public ops::LinearObserver {
public:
    GradientNoiseSink(const nn::Precision& precision, ops::LinearObserver& next)
        : precision_(precision), next_(next), layers_(precision.table().size()) {}

    void reset();
    void on_forward(std::uint32_t layer, const at::Tensor& x, const at::Tensor& w,
                    at::Tensor& y) override;
    void on_discarded_forward(std::uint32_t layer, const at::Tensor& x, const at::Tensor& w,
                              at::Tensor& y) override;
    void on_backward(std::uint32_t layer, const at::Tensor& g, at::Tensor& dx,
                     const at::Tensor& dw) override;

    // |g| and |g_q - g| of the measured layers, once the gradients of the step are complete:
    // `weights` are those of the layers, in the order of the table.
    std::vector<GradientNoise> result(const std::vector<at::Tensor>& weights) const;
    double seconds() const { return seconds_; }  // spent in here since reset(), the other excluded

private:
    struct Layer {
        std::deque<at::Tensor> inputs;  // X of micro-batches whose backward has not run
        at::Tensor error;               // sum of g_q - g
    };
    bool measured(std::uint32_t layer) const;

    const nn::Precision& precision_;
    ops::LinearObserver& next_;
    std::vector<Layer> layers_;
    double seconds_ = 0;
};

}  // namespace subbyte::snip
