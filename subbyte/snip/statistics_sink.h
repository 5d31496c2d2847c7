// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "subbyte/ops/linear_observer.h"
#include "subbyte/plan/estimator.h"
#include "subbyte/plan/layer_table.h"
#include "subbyte/plan/recipe.h"
#include "subbyte/plan/statistics.h"

namespace subbyte::snip {

// Collects the numbers of plan::LayerStatistics while an ordinary iteration runs. Micro-batches are
// joined: squared norms and inner products add up. Between forward and backward it keeps X only for
// the first-order term, and for output errors and the Fisher trace `sampled_rows` tokens of X.
class StatisticsSink : public ops::LinearObserver {
public:
    // Tokens of a micro-batch whose output errors stand for all.
    static constexpr std::int64_t kSampledRows = 256;

    // Errors are measured for every recipe of `recipes` that quantises, and in a layer also for
    // those that its slots are pinned to when it runs. The table must outlive the sink.
    StatisticsSink(const plan::LayerTable& table, const std::vector<std::string>& recipes,
                   const plan::Needs& needs, std::int64_t sampled_rows = kSampledRows);

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
        plan::LayerStatistics::Errors::OutputError output;
    };
    // What is kept of a micro-batch until its backward pass.
    struct Pending {
        at::Tensor x, rows, sample;  // X; numbers of the sampled tokens, and their X
        double scale = 1;            // tokens per sampled token
    };
    struct Layer {
        double x = 0, w = 0, y = 0, g = 0, dx = 0;  // squared norms
        double rows = 0, in = 0, out = 0, outer = 0;
        std::vector<Errors> errors;  // parallel to its recipes
        at::Tensor weight;
        std::vector<Pending> pending;
    };

    std::vector<plan::Recipe> measured_in(std::size_t layer) const;
    Pending keep(const at::Tensor& x) const;
    void add_first_order(Layer& layer, std::uint32_t index, const at::Tensor& x,
                         const at::Tensor& dx, const at::Tensor& dw);
    void add_sample(Layer& layer, std::uint32_t index, const Pending& pending, const at::Tensor& g);

    const plan::LayerTable& table_;
    std::vector<std::string> options_;
    std::vector<std::vector<plan::Recipe>> recipes_;  // per layer
    plan::Needs needs_;
    std::int64_t sampled_rows_;
    std::vector<Layer> layers_;
    double seconds_ = 0;
};

}  // namespace subbyte::snip
