// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/plan_improvement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "subbyte/plan/plan_task.h"
#include "subbyte/plan/refine.h"

namespace subbyte::train {
namespace {

// What the gradients around a plan say of every unit and option; only fprop moves the loss.
std::vector<std::vector<plan::Hint>> hints_around(PlannedCheckpoint& checkpoint,
                                                  const plan::PlanTask& task,
                                                  const plan::LayerTable& table,
                                                  const plan::Plan& plan) {
    const plan::ModelStatistics around =
        checkpoint.measure_around(plan, plan::needs_of(plan::LossEstimator::kTaylor)).statistics;
    const auto batches = static_cast<double>(checkpoint.measured_batches());
    std::vector<std::vector<plan::Hint>> hints;
    for (const plan::PlanUnit& unit : task.units) {
        hints.emplace_back();
        for (const plan::Recipe& recipe : task.recipes) {
            double change = 0, variance = 0;
            for (const auto& [layer, slot] : unit.gemms) {
                if (slot != plan::Slot::kFprop) continue;
                const std::string& name = table[layer].name;
                const plan::LossChange step = plan::loss_change_between(
                    around.layers[layer], name, plan.recipe(name, slot), recipe.name);
                change += step.shift;
                variance += step.spread * step.spread / batches;
            }
            hints.back().push_back({change, std::sqrt(variance)});
        }
    }
    return hints;
}

bool has_fprop(const plan::PlanUnit& unit) {
    return std::ranges::any_of(unit.gemms,
                               [](const auto& gemm) { return gemm.second == plan::Slot::kFprop; });
}

// What dgrad and wgrad cost in every unit and option: the loss of weights as they are does not
// change with them. With one recipe for a layer they follow fprop, and it stands for them.
std::vector<std::vector<double>> unseen_costs(const plan::PlanTask& task,
                                              const plan::ModelStatistics& statistics,
                                              plan::PlannerOptions planner) {
    if (planner.granularity == plan::Granularity::kLayer) return {};
    planner.coupled.clear();
    plan::PlanTask single = plan::make_task(statistics.table, planner);
    plan::set_costs(single, statistics.table, statistics, planner);
    std::map<std::pair<std::size_t, plan::Slot>, const std::vector<double>*> alone;
    for (const plan::PlanUnit& unit : single.units) alone[unit.gemms.front()] = &unit.cost;
    std::vector<std::vector<double>> unseen;
    for (const plan::PlanUnit& unit : task.units) {
        unseen.push_back(has_fprop(unit) ? std::vector<double>(unit.cost.size(), 0.0) : unit.cost);
        if (!has_fprop(unit)) continue;
        for (const auto& gemm : unit.gemms) {
            if (gemm.second == plan::Slot::kFprop) continue;
            for (std::size_t r = 0; r < unit.cost.size(); ++r)
                unseen.back()[r] += (*alone.at(gemm))[r];
        }
    }
    return unseen;
}

// The search itself, in terms of units and options.
plan::Plan search(PlannedCheckpoint& checkpoint, const plan::ModelStatistics& statistics,
                  const plan::PlannerOptions& planner, int evaluations, const plan::Plan& start,
                  Improvement& gained) {
    plan::PlanTask task = plan::make_task(statistics.table, planner);
    plan::set_costs(task, statistics.table, statistics, planner);
    const auto plan_of = [&](const std::vector<int>& choice) {
        plan::Plan plan = plan::plan_of(task, statistics.table, {choice.begin(), choice.end()});
        plan.method = start.method;
        return plan;
    };
    const plan::Refinement refined =
        plan::refine_selection(plan::to_problem(task, statistics.table, {}),
                               plan::choice_of(task, statistics.table, start),
                               [&](const std::vector<int>& choice) {
                                   return checkpoint.evaluate_measured(plan_of(choice)).mean;
                               },
                               {.evaluations = evaluations,
                                .seed = planner.seed,
                                .hints = hints_around(checkpoint, task, statistics.table, start),
                                .unseen = unseen_costs(task, statistics, planner)});
    if (refined.evaluations == 1 && evaluations > 2) {
        gained.searched = false;
    } else {
        gained.start_unseen = refined.start_unseen;
        gained.unseen = refined.unseen;
    }
    gained.evaluations += refined.evaluations;
    gained.accepted += refined.accepted;
    gained.loss = refined.loss;
    return plan_of(refined.choice);
}

}  // namespace

void improve_plan(PlannedCheckpoint& checkpoint, const plan::ModelStatistics& statistics,
                  plan::PlannerOptions planner, const ImprovementOptions& options,
                  SolvedPlan& solved) {
    planner.method = solved.result.plan.method;
    planner.target = solved.result.target;
    if (options.remeasure + options.evaluations == 0 || !plan::needs_statistics(planner.method)) {
        return;
    }
    plan::Plan best = solved.result.plan;
    Improvement gained;
    gained.start_loss = gained.loss = checkpoint.evaluate_measured(best).mean;
    gained.evaluations = 1;
    plan::ModelStatistics around = statistics;
    while (gained.remeasured < options.remeasure) {
        plan::ModelStatistics again = checkpoint.measure_around(best, {}).statistics;
        again.table = statistics.table;
        ++gained.remeasured;
        planner.start = best;
        const plan::PlanResult result = plan::make_plan(again.table, again, planner);
        if (!result.usable() || result.plan == best) break;
        const double loss = checkpoint.evaluate_measured(result.plan).mean;
        ++gained.evaluations;
        if (!(loss < gained.loss)) break;
        gained.loss = loss;
        ++gained.accepted;
        best = result.plan;
        around = std::move(again);
    }
    if (options.evaluations > 0) {
        best = search(checkpoint, around, planner, options.evaluations, best, gained);
    }
    if (best != solved.result.plan) {
        solved.result = plan::describe_plan(best, statistics.table, statistics, planner);
        model_costs(solved, statistics.table);
    }
    if (!gained.searched) {
        solved.result.notes.push_back(
            "no search by the loss: what it sees has the recipe that costs least everywhere");
    }
    if (gained.start_unseen > 0) {
        solved.result.notes.push_back(fmt::format(
            "dgrad and wgrad, which the loss does not see, are predicted to do {:.3g} as solved "
            "and {:.3g} now, in its units",
            gained.start_unseen, gained.unseen));
    }
    solved.result.notes.push_back(
        fmt::format("loss of the measured batches {:.4f} as solved, {:.4f} after {} measurements "
                    "around a plan and {} evaluations",
                    gained.start_loss, gained.loss, gained.remeasured, gained.evaluations));
    solved.improvement = gained;
}

}  // namespace subbyte::train
