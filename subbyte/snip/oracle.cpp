// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/oracle.h"

#include <fmt/format.h>

#include <cmath>

#include "subbyte/core/error.h"
#include "subbyte/ops/reduce.h"
#include "subbyte/snip/parameter_index.h"
#include "subbyte/snip/plan_guard.h"

namespace subbyte::snip {
namespace {

struct Outcome {
    double loss = 0;
    std::vector<at::Tensor> updated;  // W after one step, per layer
};

Outcome run(const Oracle& oracle, const plan::Plan& plan) {
    oracle.precision.set_plan(plan);
    std::vector<at::Tensor> parameters;
    for (const optim::Parameter& p : oracle.optimizer.parameters()) parameters.push_back(p.value);
    const Gradients gradients = gradients_of(oracle.loss, parameters);
    double squared = 0;
    for (const at::Tensor& g : gradients.gradients) squared += ops::squared_norm(g);
    const double factor = oracle.optimizer.clip_factor(std::sqrt(squared));
    const std::vector<std::size_t> index = parameter_indices(oracle.optimizer, oracle.weights);
    Outcome outcome;
    outcome.loss = gradients.loss;
    for (const std::size_t i : index) {
        outcome.updated.push_back(oracle.optimizer.preview(
            i, factor == 1.0 ? gradients.gradients[i] : gradients.gradients[i].mul(factor)));
    }
    return outcome;
}

plan::Divergence compare(const Oracle& oracle, const Outcome& base, const Outcome& other) {
    plan::Divergence divergence;
    divergence.loss = base.loss == 0 ? 0 : std::fabs(other.loss - base.loss) / std::fabs(base.loss);
    for (std::size_t k = 0; k < oracle.weights.size(); ++k) {
        const double norm = ops::norm(oracle.weights[k].detach());
        if (norm == 0) continue;
        divergence.weight += ops::difference_norm(other.updated[k], base.updated[k]) / norm;
    }
    divergence.weight /= static_cast<double>(oracle.weights.size());
    return divergence;
}

}  // namespace

plan::Divergence Oracle::of(const plan::Plan& plan) const {
    PlanGuard guard(precision);
    precision.observer = nullptr;
    const Outcome base = run(*this, plan::uniform_plan(precision.table(), high));
    return compare(*this, base, run(*this, plan));
}

std::vector<std::vector<plan::Divergence>> Oracle::per_layer(
    const std::vector<std::string>& recipes) const {
    PlanGuard guard(precision);
    precision.observer = nullptr;
    const plan::LayerTable& table = precision.table();
    const plan::Plan uniform = plan::uniform_plan(table, high);
    const Outcome base = run(*this, uniform);
    std::vector<std::vector<plan::Divergence>> result(table.size());
    for (std::size_t i = 0; i < table.size(); ++i) {
        for (const std::string& recipe : recipes) {
            plan::Divergence divergence;
            if (table[i].candidate && recipe != high) {
                plan::Plan plan = uniform;
                plan.set(table[i].name, recipe);
                divergence = compare(*this, base, run(*this, plan));
            }
            result[i].push_back(divergence);
        }
    }
    return result;
}

}  // namespace subbyte::snip
