// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/oracle.h"

#include <algorithm>
#include <cmath>

#include "subbyte/ops/reduce.h"
#include "subbyte/snip/parameter_index.h"
#include "subbyte/snip/plan_guard.h"

namespace subbyte::snip {
namespace {

struct Outcome {
    double loss = 0;
    std::vector<at::Tensor> updated;  // W after one step, per layer
};

Outcome run(const Oracle& oracle, const LossFunction& batch, const plan::Plan& plan) {
    oracle.precision.set_plan(plan);
    const StoredGradients kept(oracle.optimizer);
    std::vector<at::Tensor> parameters;
    for (const optim::Parameter& p : oracle.optimizer.parameters()) parameters.push_back(p.value);
    const at::Tensor loss = loss_with_graph(batch);
    const std::vector<at::Tensor> gradients = take_gradients(loss, parameters, false);
    double squared = 0;
    for (const at::Tensor& g : gradients) squared += ops::squared_norm(g);
    const double factor = oracle.optimizer.clip_factor(std::sqrt(squared));
    Outcome outcome;
    outcome.loss = loss.item<double>();
    for (const std::size_t i : parameter_indices(oracle.optimizer, oracle.weights)) {
        outcome.updated.push_back(
            oracle.optimizer.preview(i, factor == 1.0 ? gradients[i] : gradients[i].mul(factor)));
    }
    return outcome;
}

// Sums over batches of L' - L and of the mean relative change of the weights.
struct Sum {
    double loss = 0, weight = 0;

    void add(const Oracle& oracle, const Outcome& base, const Outcome& other) {
        loss += other.loss - base.loss;
        double change = 0;
        for (std::size_t k = 0; k < oracle.weights.size(); ++k) {
            const double norm = ops::norm(oracle.weights[k].detach());
            if (norm > 0) change += ops::difference_norm(other.updated[k], base.updated[k]) / norm;
        }
        weight += change / static_cast<double>(oracle.weights.size());
    }

    plan::Divergence divergence(double base_loss, std::size_t batches) const {
        return {.loss = base_loss == 0 ? 0 : loss / std::fabs(base_loss),
                .weight = weight / static_cast<double>(batches)};
    }
};

// Every plan against uniform `high` on all batches, DL with its sign.
std::vector<plan::Divergence> compare(const Oracle& oracle, const std::vector<plan::Plan>& plans) {
    const PlanGuard guard(oracle.precision);
    const PinsLifted lifted(oracle.precision);
    oracle.precision.observer = nullptr;
    const plan::Plan high = plan::uniform_plan(oracle.precision.table(), oracle.high);
    std::vector<Sum> sums(plans.size());
    double base_loss = 0;
    for (const LossFunction& batch : oracle.batches) {
        const Outcome base = run(oracle, batch, high);
        base_loss += base.loss;
        for (std::size_t p = 0; p < plans.size(); ++p) {
            sums[p].add(oracle, base, run(oracle, batch, plans[p]));
        }
    }
    std::vector<plan::Divergence> result;
    for (const Sum& sum : sums) result.push_back(sum.divergence(base_loss, oracle.batches.size()));
    return result;
}

}  // namespace

plan::Divergence Oracle::of(const plan::Plan& plan) const {
    plan::Plan pinned = plan;
    plan::apply_pins(pinned, precision.table());
    plan::Divergence divergence = compare(*this, {pinned}).front();
    divergence.loss = std::fabs(divergence.loss);
    return divergence;
}

std::vector<std::vector<plan::Divergence>> Oracle::per_layer(
    const std::vector<std::string>& recipes, bool keep_sign) const {
    const plan::LayerTable& table = precision.table();
    plan::LayerTable free = table;
    for (plan::LayerInfo& layer : free) {
        if (layer.candidate) layer.pinned = {};
    }
    std::vector<plan::Plan> plans;
    std::vector<std::pair<std::size_t, std::size_t>> place;
    for (std::size_t l = 0; l < table.size(); ++l) {
        for (std::size_t r = 0; r < recipes.size(); ++r) {
            const std::array<std::string, 3> slots = table[l].with(recipes[r]);
            const bool same = std::ranges::count(slots, high) == 3;
            if (!table[l].candidate || same) continue;
            plans.push_back(plan::uniform_plan(free, high));
            plans.back().layers[table[l].name] = slots;
            place.emplace_back(l, r);
        }
    }
    const std::vector<plan::Divergence> found = compare(*this, plans);
    std::vector<std::vector<plan::Divergence>> result(
        table.size(), std::vector<plan::Divergence>(recipes.size()));
    for (std::size_t p = 0; p < plans.size(); ++p) {
        plan::Divergence& divergence = result[place[p].first][place[p].second];
        divergence = found[p];
        if (!keep_sign) divergence.loss = std::fabs(divergence.loss);
    }
    return result;
}

}  // namespace subbyte::snip
