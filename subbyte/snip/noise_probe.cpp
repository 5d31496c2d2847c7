// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/noise_probe.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <unordered_map>
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

// The passes over one batch: one without noise at first, then those of group after group.
class ProbePasses {
public:
    ProbePasses(const LossFunction& loss, nn::Precision& precision,
                const std::vector<at::Tensor>& weights, const optim::Optimizer& optimizer,
                const ProbeOptions& options, plan::ModelStatistics& statistics)
        : loss_(loss),
          precision_(precision),
          optimizer_(optimizer),
          options_(options),
          statistics_(statistics),
          injector_(precision.table().size(), options) {
        precision.observer = &injector_;
        base_loss_ = loss_with_graph(loss);
        for (std::size_t k = 0; k < weights.size(); ++k) {
            layer_of_[weights[k].unsafeGetTensorImpl()] = k;
        }
        base_.resize(weights.size());
        visit(base_loss_, /*keep_graph=*/true, [this](std::size_t k, const at::Tensor& gradient) {
            base_[k] = sampled_rows(gradient).clone();
        });
        statistics.loss = base_loss_.item<double>();
    }

    int count() const { return count_; }

    // Tokens of the passes for one of the step.
    double token_share() {
        for (std::size_t l = 0; l < statistics_.layers.size(); ++l) {
            if (layer(l).t > 0 && injector_.rows(l) > 0) return tokens(l);
        }
        return 1;
    }

    // The last pass: it changes the plan, and blocks that are computed again in backward would see
    // it.
    plan::Divergence realised(const plan::Plan& plan) {
        injector_.set(Noise::kNone, {});
        precision_.set_plan(plan);
        const at::Tensor loss = loss_with_graph(loss_);
        const double base = base_loss_.item<double>(), change = loss.item<double>() - base;
        plan::Divergence result{.loss = base == 0 ? 0 : std::fabs(change / base)};
        const std::vector<double> moved = changes(loss, /*keep_graph=*/false);
        for (std::size_t k = 0; k < moved.size(); ++k) {
            result.weight += plan::update_change(statistics_, k) * moved[k];
        }
        return result;
    }

    void probe(const std::vector<std::size_t>& group) {
        injector_.set(Noise::kForward, group);
        const at::Tensor plus = loss_with_graph(loss_);
        const std::vector<double> forward = changes(plus, /*keep_graph=*/false);
        std::vector<double> noise = noise_of(group), share = forward_shares(group, noise);
        for (std::size_t i = 0; i < group.size(); ++i) {
            const double factor = tokens(group[i]) * std::sqrt(share[i]);
            layer(group[i]).forward = gains(forward, factor, noise[i]);
        }
        if (options_.curvature) {
            injector_.set(Noise::kNegatedForward, group);
            const at::NoGradGuard no_grad;
            const double change =
                plus.item<double>() + loss_().item<double>() - 2 * statistics_.loss;
            ++count_;
            for (std::size_t i = 0; i < group.size(); ++i) {
                layer(group[i]).curvature =
                    noise[i] == 0 ? 0
                                  : tokens(group[i]) * change * share[i] / (noise[i] * noise[i]);
            }
        }
        injector_.set(Noise::kBackward, group);
        const std::vector<double> backward = changes(base_loss_, /*keep_graph=*/true);
        noise = noise_of(group);
        share = normalised(noise);
        for (std::size_t i = 0; i < group.size(); ++i) {
            layer(group[i]).backward = gains(backward, std::sqrt(share[i]), noise[i]);
        }
    }

private:
    plan::LayerStatistics& layer(std::size_t l) { return statistics_.layers[l]; }

    // With fewer tokens in the probe than in the step, the mean loss divides by fewer: an error in
    // Y moves a gradient by 1 / tokens, one in dX is already scaled.
    double tokens(std::size_t l) { return layer(l).t > 0 ? injector_.rows(l) / layer(l).t : 1.0; }

    std::vector<double> noise_of(const std::vector<std::size_t>& group) const {
        std::vector<double> noise;
        for (const std::size_t l : group) noise.push_back(std::sqrt(injector_.squared_noise(l)));
        return noise;
    }

    // At least kSampledOutputs rows of a gradient, or all of a smaller one: they stand for the
    // rest, so that no second copy of all gradients is kept. An odd stride, to meet all places in a
    // head.
    static at::Tensor sampled_rows(const at::Tensor& gradient) {
        const std::int64_t stride = gradient.size(0) / kSampledOutputs;
        return gradient.slice(0, 0, gradient.size(0), stride <= 1 ? 1 : (stride - 1) | 1);
    }

    // |change of dW_k| for all k in a pass with the noise that is set.
    std::vector<double> changes(const at::Tensor& loss, bool keep_graph) {
        std::vector<double> result(base_.size(), 0.0);
        visit(loss, keep_graph, [&](std::size_t k, const at::Tensor& gradient) {
            const at::Tensor rows = sampled_rows(gradient);
            const double share = static_cast<double>(rows.size(0)) /
                                 static_cast<double>(std::max<std::int64_t>(1, gradient.size(0)));
            if (share == 0 || !base_[k].defined()) return;
            result[k] = ops::difference_norm(rows, base_[k]) / std::sqrt(share);
        });
        ++count_;
        return result;
    }

    // The gradients of the layers' weights, one after the other; those of other parameters are
    // dropped.
    void visit(const at::Tensor& loss, bool keep_graph,
               const std::function<void(std::size_t layer, const at::Tensor& gradient)>& take) {
        visit_gradients(loss, optimizer_, keep_graph,
                        [&](const at::Tensor& parameter, const at::Tensor& gradient) {
                            const auto found = layer_of_.find(parameter.unsafeGetTensorImpl());
                            if (found != layer_of_.end()) take(found->second, gradient);
                        });
    }

    static std::vector<double> gains(std::vector<double> changes, double factor, double noise) {
        for (double& change : changes) change = noise == 0 ? 0 : factor * change / noise;
        return changes;
    }

    static std::vector<double> normalised(std::vector<double> parts) {
        double sum = 0;
        for (const double part : parts) sum += part;
        for (double& part : parts) {
            part = sum > 0 ? part / sum : 1.0 / static_cast<double>(parts.size());
        }
        return parts;
    }

    // Share of each layer in the squared changes of a forward pass with noise in all of them: that
    // of the variance which its noise gives the loss, |G|^2 |noise|^2 / (T N).
    std::vector<double> forward_shares(const std::vector<std::size_t>& group,
                                       const std::vector<double>& noise) {
        std::vector<double> parts;
        for (std::size_t i = 0; i < group.size(); ++i) {
            const plan::LayerStatistics& s = layer(group[i]);
            const double moved = s.g * noise[i];
            parts.push_back(s.n > 0 ? moved * moved / s.n : 0.0);
        }
        return normalised(std::move(parts));
    }

    static constexpr std::int64_t kSampledOutputs = 64;

    const LossFunction& loss_;
    nn::Precision& precision_;
    const optim::Optimizer& optimizer_;
    const ProbeOptions& options_;
    plan::ModelStatistics& statistics_;
    NoiseInjector injector_;
    at::Tensor base_loss_;
    std::unordered_map<const c10::TensorImpl*, std::size_t> layer_of_;
    std::vector<at::Tensor> base_;  // per layer
    int count_ = 1;
};

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

std::int64_t probe_sequences(std::int64_t batch, std::int64_t seq_len) {
    constexpr std::int64_t kTokens = 256;
    const std::int64_t length = std::max<std::int64_t>(1, seq_len);
    return std::min((batch + 3) / 4, (kTokens + length - 1) / length);
}

ProbeResult measure_gains(const LossFunction& loss, nn::Precision& precision,
                          const std::vector<at::Tensor>& weights, const optim::Optimizer& optimizer,
                          const ProbeOptions& options, const std::string& high,
                          plan::ModelStatistics& statistics) {
    if (options.probes == Probes::kNone) return {};
    const PlanGuard guard(precision);
    const PinsLifted lifted(precision);
    const StoredGradients kept(optimizer);
    precision.set_plan(plan::uniform_plan(precision.table(), high));
    ProbePasses passes(loss, precision, weights, optimizer, options, statistics);
    for (const std::vector<std::size_t>& group : groups_of(precision.table(), options.probes)) {
        passes.probe(group);
    }
    ProbeResult result{.tokens = passes.token_share()};
    if (options.in_force) result.realised = passes.realised(*options.in_force);
    result.passes = passes.count();
    return result;
}

}  // namespace subbyte::snip
