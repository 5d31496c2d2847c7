// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/replan.h"

#include <fmt/format.h>

#include <algorithm>

#include "subbyte/plan/plan_damage.h"

namespace subbyte::snip {
namespace {

plan::PlanResult hold_quality(const ReplanTask& task, const Planner& planner) {
    plan::PlannerOptions options = task.planner;
    const double most = options.target, bound = *task.damage_bound;
    // From the top: the damage of the best plan need not grow evenly with its target.
    for (int part = kTargetSteps;; --part) {
        options.target = most * part / kTargetSteps;
        plan::PlanResult result = planner(task.statistics.table, task.statistics, options);
        if (!result.usable()) return result;
        const bool held = result.predicted_loss <= bound;
        if (!held && part > 0) continue;
        result.notes.push_back(
            held ? fmt::format("target {:.4g}: the largest whose predicted loss divergence {:.3g} "
                               "is at most {:.3g}",
                               options.target, result.predicted_loss, bound)
                 : fmt::format("no target holds a loss divergence of {:.3g}: {:.3g} with the least",
                               bound, result.predicted_loss));
        return result;
    }
}

// Whether the old plan does what today's target asks. A target that had to be relaxed asks for what
// the new plan reaches.
bool meets_target(const ReplanTask& task, const plan::PlanDamage& old,
                  const plan::PlanDamage& fresh, double target) {
    const plan::LayerTable& table = task.statistics.table;
    const std::vector<double> shares = plan::candidate_shares(table);
    std::vector<double> wanted(old.reached.size(), 0.0);
    for (std::size_t i = 0; i < table.size(); ++i) {
        wanted[static_cast<std::size_t>(table[i].stage)] += target * shares[i];
    }
    for (std::size_t stage = 0; stage < wanted.size(); ++stage) {
        const double asked = std::min(wanted[stage], fresh.reached[stage]);
        if (old.reached[stage] < asked * (1 - 1e-9)) return false;
    }
    return !task.damage_bound || old.loss <= *task.damage_bound;
}

// Plans of other recipes (the high-precision start, another run's plan) cannot be compared: their
// damage was not measured, or no plan could be like them.
bool is_comparable(const ReplanTask& task) {
    if (!task.in_force) return false;
    const std::vector<std::string>& options = task.planner.recipes;
    for (const plan::LayerInfo& layer : task.statistics.table) {
        for (const plan::Slot slot : plan::kSlots) {
            if (!layer.plans(slot)) continue;
            const std::string& recipe = task.in_force->recipe(layer.name, slot);
            if (std::find(options.begin(), options.end(), recipe) == options.end()) return false;
        }
    }
    return true;
}

}  // namespace

ReplanResult replan(const ReplanTask& task, const Planner& planner) {
    ReplanResult decision;
    decision.result = task.damage_bound
                          ? hold_quality(task, planner)
                          : planner(task.statistics.table, task.statistics, task.planner);
    plan::PlanResult& result = decision.result;
    if (!result.usable()) {
        decision.keep = true;
        return decision;
    }
    if (task.statistics.layers.empty()) return decision;
    const auto damage_of = [&](const plan::Plan& plan) {
        return plan::plan_damage(plan, task.statistics.table, task.statistics, task.planner);
    };
    const plan::PlanDamage fresh = damage_of(result.plan);
    decision.cost = fresh.objective;
    decision.damage = fresh.layers;
    if (task.hysteresis <= 0 || !is_comparable(task) || *task.in_force == result.plan) {
        return decision;
    }
    const plan::PlanDamage old = damage_of(*task.in_force);
    decision.cost_in_force = old.objective;
    if (!meets_target(task, old, fresh, result.target)) return decision;
    if (fresh.objective < (1 - task.hysteresis) * old.objective) return decision;
    decision.keep = true;
    decision.damage = old.layers;
    result.notes.push_back(fmt::format(
        "the plan in force stays: it reaches {:.4g} of the target {:.4g} and is predicted to cost "
        "{:.4g} today, the new plan {:.4g}, which is not below {:.4g} of it",
        old.efficiency(), result.target, old.objective, fresh.objective, 1 - task.hysteresis));
    return decision;
}

}  // namespace subbyte::snip
