// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "subbyte/optim/optimizer.h"

namespace subbyte::snip {

// Runs one forward pass on a fixed batch and returns the mean loss with its graph. Every call must
// see the same batch.
using LossFunction = std::function<at::Tensor()>;

// Takes the gradients of all parameters of an optimizer out of the way and puts them back, so that
// backward passes in between leave no trace.
class StoredGradients {
public:
    explicit StoredGradients(const optim::Optimizer& optimizer);
    ~StoredGradients();
    StoredGradients(const StoredGradients&) = delete;
    StoredGradients& operator=(const StoredGradients&) = delete;

private:
    std::vector<at::Tensor> parameters_, gradients_;
};

// The loss with its graph, also where gradients are switched off.
at::Tensor loss_with_graph(const LossFunction& loss);

// Runs backward from `loss` and takes the gradients of `weights` out of .grad(), zeros where the
// loss does not depend on one. Those of other parameters add up in their .grad(), which blocks that
// are computed again in backward cannot avoid: see StoredGradients.
std::vector<at::Tensor> take_gradients(const at::Tensor& loss,
                                       const std::vector<at::Tensor>& weights, bool keep_graph);

}  // namespace subbyte::snip
