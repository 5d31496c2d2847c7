// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "subbyte/core/error.h"
#include "subbyte/plan/plan_task.h"

namespace subbyte::plan {
namespace {

constexpr double kOutOfReach = std::numeric_limits<double>::infinity();

// Objective of the best choice of one pipeline stage with one unit held to an option. Stages share
// no unit, so the others need not be solved again.
class StageSolver {
public:
    StageSolver(const PlanTask& task, const LayerTable& table, const PlannerOptions& options)
        : whole_(to_problem(task, table, {})), limits_(options.limits) {}

    double objective(std::size_t unit, std::size_t option) const {
        const int stage = whole_.items[unit].group;
        SelectionProblem part;
        part.target = {whole_.target[static_cast<std::size_t>(stage)]};
        for (std::size_t i = 0; i < whole_.items.size(); ++i) {
            if (whole_.items[i].group != stage) continue;
            part.items.push_back(whole_.items[i]);
            SelectionProblem::Item& item = part.items.back();
            item.group = 0;
            if (i != unit) continue;
            item.cost = {item.cost[option]};
            item.gain = {item.gain[option]};
        }
        const Selection selection = solve_selection(part, limits_);
        if (selection.status == SelectionStatus::kInfeasible) return kOutOfReach;
        if (selection.status != SelectionStatus::kOptimal) return std::nan("");
        return selection.objective;
    }

private:
    SelectionProblem whole_;
    SelectionLimits limits_;
};

ExplainedUnit describe(const PlanTask& task, const PlanUnit& unit, const LayerTable& table,
                       int planned) {
    const LayerInfo& first = table[unit.gemms.front().first];
    ExplainedUnit result{.name = unit.name,
                         .type = first.type,
                         .block = first.block,
                         .stage = unit.stage,
                         .work = unit.work,
                         .planned = {},
                         .options = {}};
    if (planned >= 0) result.planned = task.recipes[static_cast<std::size_t>(planned)].name;
    for (std::size_t r = 0; r < task.recipes.size(); ++r) {
        result.options.push_back({.recipe = task.recipes[r].name,
                                  .loss = unit.divergence[r].loss,
                                  .weight = unit.divergence[r].weight,
                                  .cost = unit.cost[r],
                                  .saved = unit.saved[r],
                                  .flip = std::nan("")});
    }
    return result;
}

// What it costs to go from the cheapest option to the one that saves most.
struct LargestStep {
    double cost = 0, saved = 0;
};

LargestStep largest_step(const ExplainedUnit& unit) {
    const auto most = std::max_element(
        unit.options.begin(), unit.options.end(), [](const auto& a, const auto& b) {
            return a.saved != b.saved ? a.saved < b.saved : a.cost > b.cost;
        });
    const auto cheapest =
        std::min_element(unit.options.begin(), unit.options.end(),
                         [](const auto& a, const auto& b) { return a.cost < b.cost; });
    return {most->cost - cheapest->cost, most->saved - cheapest->saved};
}

void set_ranks(std::vector<ExplainedUnit>& units) {
    std::vector<std::size_t> order(units.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return largest_step(units[a]).cost > largest_step(units[b]).cost;
    });
    for (std::size_t i = 0; i < order.size(); ++i) units[order[i]].rank = static_cast<int>(i) + 1;
    for (ExplainedUnit& unit : units) {
        const LargestStep step = largest_step(unit);
        unit.ratio = step.saved > 0 ? step.cost / step.saved : 0.0;
    }
}

void set_shares(std::vector<ExplainedUnit>& units, const std::vector<int>& choice) {
    double loss = 0, weight = 0;
    for (std::size_t u = 0; u < units.size(); ++u) {
        const ExplainedOption& option = units[u].options[static_cast<std::size_t>(choice[u])];
        loss += units[u].loss_share = option.loss;
        weight += units[u].weight_share = option.weight;
    }
    for (ExplainedUnit& unit : units) {
        if (loss > 0) unit.loss_share /= loss;
        if (weight > 0) unit.weight_share /= weight;
    }
}

void set_flips(ExplainedUnit& unit, std::size_t index, std::size_t planned,
               const StageSolver& solver) {
    const double now = solver.objective(index, planned);
    for (std::size_t r = 0; r < unit.options.size(); ++r) {
        const double then = r == planned ? now : solver.objective(index, r);
        // Both out of reach: the plan misses the target, and so does every other.
        unit.options[r].flip = r == planned ? 0.0 : then - now;
    }
}

}  // namespace

Explanation explain_plan(const Plan& plan, const LayerTable& table,
                         const ModelStatistics& statistics, const PlannerOptions& options,
                         const std::function<bool(const std::string& name)>& wanted) {
    Explanation result;
    const PlanResult best = make_plan(table, statistics, options);
    if (!best.usable()) {
        throw Error(ErrorCode::kUsage, best.notes.back(), "give more --seconds");
    }
    PlanTask task = make_task(table, options);
    set_costs(task, table, statistics, options);
    const std::vector<int> choice = choice_of(task, table, plan);
    for (std::size_t u = 0; u < task.units.size(); ++u) {
        const PlanUnit& unit = task.units[u];
        if (choice[u] < 0) {
            throw Error(
                ErrorCode::kUsage,
                fmt::format("the plan gives '{}' {}, {}, {} in its three slots", unit.name,
                            plan.recipe(table[unit.gemms.front().first].name, Slot::kFprop),
                            plan.recipe(table[unit.gemms.front().first].name, Slot::kDgrad),
                            plan.recipe(table[unit.gemms.front().first].name, Slot::kWgrad)),
                fmt::format("explain it with these recipes among the options{}",
                            options.granularity == Granularity::kLayer
                                ? " and, if they differ, granularity gemm"
                                : ""));
        }
        const auto r = static_cast<std::size_t>(choice[u]);
        result.objective += unit.cost[r];
        result.reached += unit.saved[r];
        result.units.push_back(describe(task, unit, table, choice[u]));
    }
    set_shares(result.units, choice);
    set_ranks(result.units);
    const StageSolver solver(task, table, options);
    for (std::size_t u = 0; u < result.units.size(); ++u) {
        if (wanted && !wanted(result.units[u].name)) continue;
        set_flips(result.units[u], u, static_cast<std::size_t>(choice[u]), solver);
    }
    result.target = options.target;
    result.best = best.objective;
    result.gap = options.limits.gap;
    result.notes = best.notes;
    return result;
}

}  // namespace subbyte::plan
