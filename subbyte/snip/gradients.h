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

// Runs backward from `loss` and hands over the gradient of each parameter of the optimizer as soon
// as it is complete; it is dropped then, so that never all of them are there. Parameters that the
// loss does not depend on are not visited. Their .grad() must be empty: see StoredGradients.
using VisitGradient = std::function<void(const at::Tensor& parameter, const at::Tensor& gradient)>;
void visit_gradients(const at::Tensor& loss, const optim::Optimizer& optimizer, bool keep_graph,
                     const VisitGradient& visit);

}  // namespace subbyte::snip
