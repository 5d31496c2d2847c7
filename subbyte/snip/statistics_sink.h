// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "subbyte/ops/linear_observer.h"
#include "subbyte/plan/recipe.h"
#include "subbyte/plan/statistics.h"

namespace subbyte::snip {

// Collects the numbers of plan::LayerStatistics while an ordinary iteration runs. Micro-batches are
// joined: squared norms and inner products add up. Keeps the inputs X until their backward pass
// only when first-order terms are asked for.
class StatisticsSink : public ops::LinearObserver {
public:
    // Errors are measured for every recipe of `recipes` that quantises.
    StatisticsSink(std::size_t layers, const std::vector<std::string>& recipes, bool first_order);

    void reset();
    void on_forward(std::uint32_t layer, const at::Tensor& x, const at::Tensor& w,
                    at::Tensor& y) override;
    void on_backward(std::uint32_t layer, const at::Tensor& g, at::Tensor& dx,
                     const at::Tensor& dw) override;

    // Norms of everything seen since reset(), without dw, jacobian and gains (the caller adds
    // them).
    std::vector<plan::LayerStatistics> statistics() const;
    double seconds() const { return seconds_; }  // time spent in here since reset()

private:
    struct Errors {
        double ex = 0, ew = 0, eg = 0, ew_dgrad = 0, eg_wgrad = 0, ex_wgrad = 0;  // squared
        double first_order = 0;  // signed inner products
    };
    struct Layer {
        double x = 0, w = 0, y = 0, g = 0, dx = 0;  // squared norms
        double rows = 0, in = 0, out = 0;
        std::vector<Errors> errors;  // parallel to recipes_
        at::Tensor weight;
        std::vector<at::Tensor> inputs;  // X of micro-batches whose backward has not run
    };

    std::vector<plan::Recipe> recipes_;
    bool first_order_;
    std::vector<Layer> layers_;
    double seconds_ = 0;
};

}  // namespace subbyte::snip
