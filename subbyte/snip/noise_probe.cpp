// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/noise_probe.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>
#include <utility>

#include "subbyte/ops/gaussian.h"
#include "subbyte/ops/noise_role.h"
#include "subbyte/ops/reduce.h"
#include "subbyte/snip/plan_guard.h"

namespace subbyte::snip {
namespace {

enum class Where { kForward, kBackward };

// Adds noise to Y (forward) or dX (backward) of the chosen layers and remembers how much.
class NoiseInjector : public ops::LinearObserver {
public:
    NoiseInjector(Where where, std::vector<bool> chosen, const ProbeOptions& options)
        : where_(where),
          chosen_(std::move(chosen)),
          options_(options),
          squared_(chosen_.size()),
          rows_(chosen_.size()) {}

    void on_forward(std::uint32_t layer, const at::Tensor&, const at::Tensor&,
                    at::Tensor& y) override {
        rows_[layer] = static_cast<double>(y.size(0));
        if (where_ == Where::kForward && chosen_[layer]) disturb(layer, y, ops::kProbeForwardRole);
    }

    void on_discarded_forward(std::uint32_t layer, const at::Tensor&, const at::Tensor&,
                              at::Tensor& y) override {
        const double counted = squared_[layer];
        if (where_ == Where::kForward && chosen_[layer]) disturb(layer, y, ops::kProbeForwardRole);
        squared_[layer] = counted;
    }

    void on_backward(std::uint32_t layer, const at::Tensor&, at::Tensor& dx,
                     const at::Tensor&) override {
        if (where_ == Where::kBackward && chosen_[layer] && dx.defined()) {
            disturb(layer, dx, ops::kProbeBackwardRole);
        }
    }

    double noise_norm(std::size_t layer) const { return std::sqrt(squared_[layer]); }
    double rows(std::size_t layer) const { return rows_[layer]; }

private:
    void disturb(std::uint32_t layer, at::Tensor& tensor, std::uint16_t role) {
        at::NoGradGuard no_grad;
        const double norm = ops::norm(tensor);
        if (norm == 0 || tensor.numel() == 0) return;
        const at::Tensor noise =
            ops::gaussian(tensor.sizes(), {options_.seed, 0, layer, role})
                .mul_(options_.scale * norm / std::sqrt(static_cast<double>(tensor.numel())));
        squared_[layer] += ops::squared_norm(noise);
        tensor.add_(noise);
    }

    Where where_;
    std::vector<bool> chosen_;
    ProbeOptions options_;
    std::vector<double> squared_, rows_;
};

std::vector<std::vector<std::size_t>> groups_of(const plan::LayerTable& table, Probes probes) {
    std::map<int, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (!table[i].candidate) continue;  // keeps its precision, so its error paths do not matter
        int key = 0;
        if (probes == Probes::kLayer) key = static_cast<int>(i);
        // Layers outside the blocks stand alone, with keys below every block number.
        if (probes == Probes::kBlock) {
            key = table[i].block >= 0 ? table[i].block : -1 - static_cast<int>(i);
        }
        groups[key].push_back(i);
    }
    std::vector<std::vector<std::size_t>> result;
    for (auto& [key, members] : groups) result.push_back(std::move(members));
    return result;
}

}  // namespace

Gradients gradients_of(const LossFunction& loss, const std::vector<at::Tensor>& weights) {
    at::AutoGradMode enable(true);
    const at::Tensor value = loss();
    Gradients result;
    result.loss = value.item<double>();
    result.gradients = torch::autograd::grad({value}, weights, {}, /*retain_graph=*/false,
                                             /*create_graph=*/false, /*allow_unused=*/true);
    for (std::size_t i = 0; i < weights.size(); ++i) {
        if (!result.gradients[i].defined())
            result.gradients[i] = at::zeros_like(weights[i].detach());
    }
    return result;
}

int measure_gains(const LossFunction& loss, nn::Precision& precision,
                  const std::vector<at::Tensor>& weights, const ProbeOptions& options,
                  const std::string& high, plan::ModelStatistics& statistics) {
    if (options.probes == Probes::kNone) return 0;
    const plan::LayerTable& table = precision.table();
    PlanGuard guard(precision);
    precision.set_plan(plan::uniform_plan(table, high));

    precision.observer = nullptr;
    const Gradients base = gradients_of(loss, weights);
    statistics.loss = base.loss;
    int passes = 1;
    for (const std::vector<std::size_t>& group : groups_of(table, options.probes)) {
        std::vector<bool> chosen(table.size(), false);
        for (const std::size_t layer : group) chosen[layer] = true;
        for (const Where where : {Where::kForward, Where::kBackward}) {
            NoiseInjector injector(where, chosen, options);
            precision.observer = &injector;
            const Gradients disturbed = gradients_of(loss, weights);
            ++passes;
            std::vector<double> change(table.size());
            for (std::size_t k = 0; k < table.size(); ++k) {
                change[k] = ops::difference_norm(disturbed.gradients[k], base.gradients[k]);
            }
            for (const std::size_t layer : group) {
                const double noise =
                    injector.noise_norm(layer) * std::sqrt(static_cast<double>(group.size()));
                // With fewer tokens in the probe than in the step, the mean loss divides by fewer:
                // an error in Y moves a gradient by 1 / tokens, one in dX is already scaled.
                const double tokens = statistics.layers[layer].t > 0
                                          ? injector.rows(layer) / statistics.layers[layer].t
                                          : 1.0;
                std::vector<double>& gains = where == Where::kForward
                                                 ? statistics.layers[layer].forward
                                                 : statistics.layers[layer].backward;
                gains.assign(table.size(), 0.0);
                if (noise == 0) continue;
                for (std::size_t k = 0; k < table.size(); ++k) {
                    gains[k] = change[k] / noise * (where == Where::kForward ? tokens : 1.0);
                }
            }
        }
    }
    return passes;
}

}  // namespace subbyte::snip
