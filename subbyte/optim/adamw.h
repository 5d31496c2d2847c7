// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "subbyte/optim/adam_kernel.h"
#include "subbyte/optim/optimizer.h"

namespace subbyte::optim {

struct AdamWOptions {
    double lr = 1e-3;            // >= 0
    double beta1 = 0.9;          // [0, 1)
    double beta2 = 0.999;        // [0, 1)
    double eps = 1e-8;           // >= 1.2e-38
    double weight_decay = 0.01;  // >= 0, decoupled: W *= 1 - lr * weight_decay
    double max_grad_norm = 0;    // >= 0; 0: no clipping
    bool amsgrad = false;
};

// AdamW (arXiv 1711.05101), as torch.optim.AdamW: decay first, bias corrections counted per
// parameter, eps outside the corrected square root. FP32 states for FP32 and BF16 parameters, FP64
// for FP64.
class AdamW : public Optimizer {
public:
    // Error kUsage names the option, its value and its range.
    explicit AdamW(std::vector<Parameter> parameters, const AdamWOptions& options = {});

    const AdamWOptions& options() const { return options_; }  // lr: the initial one

    std::string name() const override { return "adamw"; }
    at::Tensor preview(std::size_t i, const at::Tensor& grad) const override;
    double update_sensitivity(std::size_t i, const at::Tensor& grad) const override;
    NamedTensors state_tensors() const override;
    nlohmann::json state_numbers() const override;
    void load_state(const NamedTensors& tensors, const nlohmann::json& numbers) override;

private:
    struct State {
        Moments moments;         // undefined before the first update
        std::int64_t count = 0;  // updates of this parameter
    };

    void update(std::size_t i, const at::Tensor& grad, double scale, std::int64_t t) override;
    AdamStep next_step(std::size_t i) const;
    Moments moments_copy(std::size_t i) const;

    AdamWOptions options_;
    std::vector<State> states_;  // one per parameter
};

}  // namespace subbyte::optim
