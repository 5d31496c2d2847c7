// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace subbyte::ops {

// Someone who looks at (or disturbs) the tensors of linear layers. The tensors are the
// high-precision ones, 2-D: x [T, K], w [N, K], y [T, N], g = dL/dY [T, N], dx = dL/dX [T, K], dw =
// dL/dW [N, K]. A null observer costs nothing.
class LinearObserver {
public:
    virtual ~LinearObserver() = default;
    // May add noise to y in place.
    virtual void on_forward(std::uint32_t layer, const at::Tensor& x, const at::Tensor& w,
                            at::Tensor& y) = 0;
    // The same for a forward pass whose intermediate results are thrown away: backward computes it
    // again, and then calls on_forward(). Noise must be the same both times.
    virtual void on_discarded_forward(std::uint32_t /*layer*/, const at::Tensor& /*x*/,
                                      const at::Tensor& /*w*/, at::Tensor& /*y*/) {}
    // dx or dw is undefined when nobody needs it. May add noise to dx in place.
    virtual void on_backward(std::uint32_t layer, const at::Tensor& g, at::Tensor& dx,
                             const at::Tensor& dw) = 0;
};

}  // namespace subbyte::ops
