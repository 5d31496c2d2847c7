// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/nn/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <utility>

#include "subbyte/core/error.h"

namespace subbyte::nn {
namespace {

class DiscardedScope {
public:
    explicit DiscardedScope(Precision* precision) : precision_(precision) {
        if (precision_ != nullptr) before_ = std::exchange(precision_->discarded, true);
    }
    ~DiscardedScope() {
        if (precision_ != nullptr) precision_->discarded = before_;
    }
    DiscardedScope(const DiscardedScope&) = delete;
    DiscardedScope& operator=(const DiscardedScope&) = delete;

private:
    Precision* precision_;
    bool before_ = false;
};

class RecomputeBackward : public torch::autograd::Node {
public:
    std::function<at::Tensor(const at::Tensor&)> body;
    torch::autograd::SavedVariable x_saved;

    std::string name() const override { return "SubbyteRecomputeBackward"; }
    void release_variables() override {
        body = nullptr;
        x_saved.reset_data();
    }

    torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
        if (!grads[0].defined()) return {at::Tensor()};
        if (!body) {
            throw Error(ErrorCode::kUsage,
                        "backward was called twice through the same recomputed block",
                        "run the forward pass again before the second backward");
        }
        at::Tensor x = x_saved.unpack().detach().requires_grad_(true);
        {
            const at::AutoGradMode with_gradients(true);
            torch::autograd::backward({body(x)}, {grads[0].detach()});
        }
        return {x.grad()};
    }
};

}  // namespace

at::Tensor recompute(std::function<at::Tensor(const at::Tensor&)> body, const at::Tensor& x,
                     const std::shared_ptr<Precision>& precision) {
    // An input without a gradient would cut the parameters of the body off the graph.
    if (!at::GradMode::is_enabled() || !x.requires_grad()) return body(x);
    at::Tensor y;
    {
        const at::NoGradGuard no_grad;
        const DiscardedScope discarded(precision.get());
        y = body(x);
    }
    auto node = c10::make_intrusive<RecomputeBackward>();
    node->body = std::move(body);
    node->x_saved = torch::autograd::SavedVariable(x, false);
    node->set_next_edges(torch::autograd::collect_next_edges(x));
    torch::autograd::set_history(y, node);
    return y;
}

}  // namespace subbyte::nn
