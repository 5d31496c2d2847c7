// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/noise_probe.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"
#include "subbyte/ops/gaussian.h"
#include "subbyte/ops/noise_role.h"
#include "subbyte/ops/reduce.h"
#include "subbyte/snip/plan_guard.h"

namespace subbyte::snip {
namespace {

enum class Noise { kNone, kForward, kNegatedForward, kBackward };

// Adds noise to Y (forward) or dX (backward) of the chosen layers and remembers how much. One
// injector serves all passes: the graph of the first one is gone through again with other noise.
class NoiseInjector : public ops::LinearObserver {
public:
    NoiseInjector(std::size_t layers, const ProbeOptions& options)
        : options_(options), chosen_(layers), squared_(layers), rows_(layers) {}

    void set(Noise noise, const std::vector<std::size_t>& layers) {
        noise_ = noise;
        chosen_.assign(chosen_.size(), false);
        squared_.assign(squared_.size(), 0.0);
        for (const std::size_t layer : layers) chosen_[layer] = true;
    }

    void on_forward(std::uint32_t layer, const at::Tensor&, const at::Tensor&,
                    at::Tensor& y) override {
        rows_[layer] = static_cast<double>(y.size(0));
        if (disturbs_forward(layer)) squared_[layer] += disturb(layer, y, ops::kProbeForwardRole);
    }

    void on_discarded_forward(std::uint32_t layer, const at::Tensor&, const at::Tensor&,
                              at::Tensor& y) override {
        if (disturbs_forward(layer)) disturb(layer, y, ops::kProbeForwardRole);
    }

    void on_backward(std::uint32_t layer, const at::Tensor&, at::Tensor& dx,
                     const at::Tensor&) override {
        if (noise_ == Noise::kBackward && chosen_[layer] && dx.defined()) {
            squared_[layer] += disturb(layer, dx, ops::kProbeBackwardRole);
        }
    }

    double squared_noise(std::size_t layer) const { return squared_[layer]; }
    double rows(std::size_t layer) const { return rows_[layer]; }

private:
    bool disturbs_forward(std::uint32_t layer) const {
        return chosen_[layer] && (noise_ == Noise::kForward || noise_ == Noise::kNegatedForward);
    }

    // Returns |noise|^2.
    double disturb(std::uint32_t layer, at::Tensor& tensor, std::uint16_t role) const {
        at::NoGradGuard no_grad;
        const double norm = ops::norm(tensor);
        if (norm == 0 || tensor.numel() == 0) return 0;
        const double sign = noise_ == Noise::kNegatedForward ? -1.0 : 1.0;
        const at::Tensor noise = ops::gaussian(tensor.sizes(), {options_.seed, 0, layer, role})
                                     .mul_(sign * options_.scale * norm /
                                           std::sqrt(static_cast<double>(tensor.numel())));
        tensor.add_(noise);
        return ops::squared_norm(noise);
    }

    ProbeOptions options_;
    Noise noise_ = Noise::kNone;
    std::vector<bool> chosen_;
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

constexpr std::pair<Probes, const char*> kNames[] = {{Probes::kNone, "none"},
                                                     {Probes::kShared, "shared"},
                                                     {Probes::kBlock, "block"},
                                                     {Probes::kLayer, "layer"}};

}  // namespace

std::string_view probes_name(Probes probes) {
    for (const auto& [value, name] : kNames) {
        if (value == probes) return name;
    }
    throw Error(ErrorCode::kInternal, "probes without a name");
}

std::vector<std::string> probes_names() {
    std::vector<std::string> names;
    for (const auto& [value, name] : kNames) names.emplace_back(name);
    return names;
}

Probes probes_from_name(std::string_view name) {
    for (const auto& [value, known] : kNames) {
        if (name == known) return value;
    }
    throw Error(ErrorCode::kUsage, fmt::format("unknown kind of noise probes '{}'", name),
                nearest_hint(name, probes_names()));
}

int measure_gains(const LossFunction& loss, nn::Precision& precision,
                  const std::vector<at::Tensor>& weights, const optim::Optimizer& optimizer,
                  const ProbeOptions& options, const std::string& high,
                  plan::ModelStatistics& statistics) {
    if (options.probes == Probes::kNone) return 0;
    const plan::LayerTable& table = precision.table();
    const PlanGuard guard(precision);
    const StoredGradients kept(optimizer);
    precision.set_plan(plan::uniform_plan(table, high));
    NoiseInjector injector(table.size(), options);
    precision.observer = &injector;

    const at::Tensor base_loss = loss_with_graph(loss);
    const std::vector<at::Tensor> base = take_gradients(base_loss, weights, /*keep_graph=*/true);
    statistics.loss = base_loss.item<double>();
    int passes = 1;
    for (const std::vector<std::size_t>& group : groups_of(table, options.probes)) {
        const auto groups_layers = static_cast<double>(group.size());
        // |change of dW_k| / |noise at a layer of the group|, for all k.
        const auto gains = [&](const std::vector<at::Tensor>& disturbed, std::size_t layer,
                               double factor) {
            std::vector<double> result(table.size(), 0.0);
            const double noise = std::sqrt(injector.squared_noise(layer) * groups_layers);
            if (noise == 0) return result;
            for (std::size_t k = 0; k < table.size(); ++k) {
                result[k] = factor * ops::difference_norm(disturbed[k], base[k]) / noise;
            }
            return result;
        };
        injector.set(Noise::kForward, group);
        const at::Tensor plus = loss_with_graph(loss);
        std::vector<at::Tensor> disturbed = take_gradients(plus, weights, /*keep_graph=*/false);
        ++passes;
        for (const std::size_t layer : group) {
            // With fewer tokens in the probe than in the step, the mean loss divides by fewer: an
            // error in Y moves a gradient by 1 / tokens, one in dX is already scaled.
            plan::LayerStatistics& s = statistics.layers[layer];
            const double tokens = s.t > 0 ? injector.rows(layer) / s.t : 1.0;
            s.forward = gains(disturbed, layer, tokens);
        }
        disturbed.clear();
        if (options.curvature) {
            std::vector<double> noise;
            for (const std::size_t layer : group) noise.push_back(injector.squared_noise(layer));
            injector.set(Noise::kNegatedForward, group);
            const at::NoGradGuard no_grad;
            const double minus = loss().item<double>();
            ++passes;
            const double change = plus.item<double>() + minus - 2 * statistics.loss;
            for (std::size_t i = 0; i < group.size(); ++i) {
                plan::LayerStatistics& s = statistics.layers[group[i]];
                const double tokens = s.t > 0 ? injector.rows(group[i]) / s.t : 1.0;
                s.curvature = noise[i] == 0 ? 0 : tokens * change / (noise[i] * groups_layers);
            }
        }
        injector.set(Noise::kBackward, group);
        disturbed = take_gradients(base_loss, weights, /*keep_graph=*/true);
        ++passes;
        for (const std::size_t layer : group) {
            statistics.layers[layer].backward = gains(disturbed, layer, 1.0);
        }
    }
    return passes;
}

}  // namespace subbyte::snip
