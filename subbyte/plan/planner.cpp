// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"
#include "subbyte/plan/baselines.h"
#include "subbyte/plan/plan_task.h"

namespace subbyte::plan {
namespace {

void check(const PlannerOptions& options) {
    const std::vector<std::string> methods = planner_methods();
    if (std::find(methods.begin(), methods.end(), options.method) == methods.end()) {
        throw Error(ErrorCode::kUsage, fmt::format("unknown planning method '{}'", options.method),
                    nearest_hint(options.method, methods));
    }
    if (!(options.target >= 0 && options.target <= 1)) {
        throw Error(ErrorCode::kUsage, fmt::format("planning target {}", options.target),
                    "the target is a share of the FLOPs, between 0 and 1");
    }
    for (const double weight : {options.loss_weight, options.weight_weight}) {
        if (!(weight >= 0 && weight <= 1e100)) {
            throw Error(ErrorCode::kUsage, fmt::format("planning weight {}", weight),
                        "the weights of loss and weight divergence are 0 or more");
        }
    }
    if (options.recipes.empty()) {
        throw Error(ErrorCode::kUsage, "planning without recipes",
                    "name at least one, e.g. fp8 and fp4");
    }
    for (auto recipe = options.recipes.begin(); recipe != options.recipes.end(); ++recipe) {
        if (std::find(options.recipes.begin(), recipe, *recipe) != recipe) {
            throw Error(ErrorCode::kUsage, fmt::format("recipe '{}' is named twice", *recipe),
                        "name every option once");
        }
        const Recipe found = find_recipe(*recipe);
        for (auto other = options.recipes.begin(); other != recipe; ++other) {
            if (find_recipe(*other).slots != found.slots) continue;
            throw Error(ErrorCode::kUsage,
                        fmt::format("recipes '{}' and '{}' are the same", *other, *recipe),
                        "name every option once");
        }
    }
}

// Tells about options that no optimum needs: another one saves at least as much and costs less
// everywhere.
void note_useless_recipes(const PlanTask& task, PlanResult& result) {
    for (std::size_t r = 0; r < task.recipes.size(); ++r) {
        for (std::size_t other = 0; other < task.recipes.size(); ++other) {
            const auto beaten = [&](const PlanUnit& unit) {
                return unit.saved[other] >= unit.saved[r] && unit.cost[other] < unit.cost[r];
            };
            if (other == r || task.units.empty() ||
                !std::all_of(task.units.begin(), task.units.end(), beaten)) {
                continue;
            }
            result.notes.push_back(fmt::format(
                "'{}' is never chosen: '{}' counts at least as much and costs less in every "
                "layer",
                task.recipes[r].name, task.recipes[other].name));
            break;
        }
    }
}

// The cheapest choice under the budget; empty when the time limit came first.
std::vector<std::size_t> choose_cheapest(const PlanTask& task, const LayerTable& table,
                                         const PlannerOptions& options, PlanResult& result) {
    note_useless_recipes(task, result);
    const SelectionProblem problem = to_problem(task, table, options.start);
    const Selection selection = solve_selection(problem, options.limits);
    result.status = selection.status;
    result.gap = selection.gap;
    result.objective = selection.objective;
    if (selection.status == SelectionStatus::kInfeasible) {
        throw Error(ErrorCode::kInternal, "planning: a relaxed target is out of reach");
    }
    if (selection.status == SelectionStatus::kFeasible) {
        result.notes.push_back(
            fmt::format("time limit of {} s: the plan may be {:.2g} % from the optimum",
                        options.limits.seconds, 100 * selection.gap));
    }
    if (selection.status == SelectionStatus::kNoSolution) {
        result.notes.push_back(
            fmt::format("no plan within {} s: the plan in force stays", options.limits.seconds));
    }
    return {selection.choice.begin(), selection.choice.end()};
}

// The recipe that saves most with the fewest bits, or least with the most.
std::size_t extreme_recipe(const PlanTask& task, const PlanUnit& unit, bool low_precision) {
    // A recipe that costs time saves nothing; it is not what a layer should start from.
    const auto rank = [&](std::size_t r) {
        return std::pair(std::max(0.0, unit.saved[r]), -task.recipes[r].element_bits());
    };
    std::size_t best = 0;
    for (std::size_t r = 1; r < task.recipes.size(); ++r) {
        if (low_precision ? rank(r) > rank(best) : rank(r) < rank(best)) best = r;
    }
    return best;
}

// Units of the task, those of a group together.
using UnitOrder = std::vector<std::vector<std::size_t>>;

// The units that hold a GEMM for which `belongs(group, gemm)`, group by group.
template <typename Group, typename Belongs>
UnitOrder units_in(const PlanTask& task, const std::vector<Group>& order, Belongs belongs) {
    UnitOrder result;
    for (const Group& group : order) {
        result.emplace_back();
        for (std::size_t u = 0; u < task.units.size(); ++u) {
            const auto& gemms = task.units[u].gemms;
            if (std::ranges::any_of(gemms, [&](const auto& gemm) { return belongs(group, gemm); }))
                result.back().push_back(u);
        }
    }
    return result;
}

UnitOrder layers_in(const PlanTask& task, const FillOrder& order) {
    return units_in(task, order, [](const std::vector<std::size_t>& layers, const auto& gemm) {
        return std::ranges::find(layers, gemm.first) != layers.end();
    });
}

// Follows an order until every stage has what it needs.
std::vector<std::size_t> choose_in_order(const PlanTask& task, const UnitOrder& order) {
    std::vector<std::size_t> choice, low;
    std::vector<double> reached(task.stages.size(), 0.0);
    std::vector<bool> taken(task.units.size(), false);
    for (const PlanUnit& unit : task.units) {
        low.push_back(extreme_recipe(task, unit, true));
        choice.push_back(extreme_recipe(task, unit, false));
        reached[static_cast<std::size_t>(unit.stage)] += unit.saved[choice.back()];
    }
    for (const std::vector<std::size_t>& group : order) {
        std::vector<bool> open;
        for (std::size_t s = 0; s < reached.size(); ++s) {
            open.push_back(reached[s] < task.stages[s].target * (1 - 1e-9));
        }
        for (const std::size_t u : group) {
            const PlanUnit& unit = task.units[u];
            const auto stage = static_cast<std::size_t>(unit.stage);
            if (taken[u] || !open[stage]) continue;
            taken[u] = true;
            reached[stage] += unit.saved[low[u]] - unit.saved[choice[u]];
            choice[u] = low[u];
        }
    }
    return choice;
}

// Recipe with the fewest bits; of equals the first.
std::size_t fewest_bits(const PlanTask& task) {
    const auto best = std::min_element(
        task.recipes.begin(), task.recipes.end(),
        [](const Recipe& a, const Recipe& b) { return a.element_bits() < b.element_bits(); });
    return static_cast<std::size_t>(best - task.recipes.begin());
}

std::vector<std::size_t> choose(const PlanTask& task, const LayerTable& table,
                                const PlannerOptions& options, PlanResult& result) {
    const std::string& method = options.method;
    if (method == "uniform") {
        return std::vector<std::size_t>(task.units.size(), fewest_bits(task));
    }
    const auto in_order = [&](const FillOrder& order) {
        return choose_in_order(task, layers_in(task, order));
    };
    if (method == "random" && options.granularity == Granularity::kGemm) {
        return choose_in_order(
            task, units_in(task, random_gemm_order(table, options.seed), std::equal_to<>()));
    }
    if (method == "random") return in_order(random_order(table, options.seed));
    if (method == "layer-type") return in_order(layer_type_order(table));
    if (method == "layer-id") return in_order(layer_id_order(table));
    return choose_cheapest(task, table, options, result);
}

// Sums of DL and DW. With granularity gemm the parts of a layer are summed too: an upper bound (see
// estimate_slot_divergence).
void predict(const PlanTask& task, const std::vector<std::size_t>& choice,
             const PlannerOptions& options, PlanResult& result) {
    for (std::size_t u = 0; u < choice.size(); ++u) {
        const PlanUnit& unit = task.units[u];
        if (unit.divergence.empty()) return;
        const Divergence& d = unit.divergence[choice[u]];
        result.predicted_loss += d.loss;
        result.predicted_weight += d.weight;
    }
    result.predicted = options.loss_weight * result.predicted_loss +
                       options.weight_weight * result.predicted_weight;
}

// What was reached, stage by stage.
void measure(const PlanTask& task, const std::vector<std::size_t>& choice, PlanResult& result) {
    for (const PlanTask::Stage& stage : task.stages) {
        result.stages.push_back({stage.work, stage.work > 0 ? stage.target / stage.work : 0, 0});
    }
    for (std::size_t u = 0; u < choice.size(); ++u) {
        const double saved = task.units[u].saved[choice[u]];
        result.reached += saved;
        PlanResult::Stage& stage = result.stages[static_cast<std::size_t>(task.units[u].stage)];
        if (stage.work > 0) stage.reached += saved / stage.work;
    }
}

}  // namespace

std::string_view granularity_name(Granularity granularity) {
    return granularity == Granularity::kLayer ? "layer" : "gemm";
}

std::vector<std::string> granularity_names() { return {"layer", "gemm"}; }

Granularity granularity_from_name(std::string_view name) {
    for (const Granularity granularity : {Granularity::kLayer, Granularity::kGemm}) {
        if (name == granularity_name(granularity)) return granularity;
    }
    throw Error(ErrorCode::kUsage, fmt::format("unknown granularity '{}'", name),
                nearest_hint(name, granularity_names()));
}

std::vector<std::string> planner_methods() {
    std::vector<std::string> methods{"snip",        "uniform",    "random",  "min-abs-err",
                                     "min-rel-err", "layer-type", "layer-id"};
    for (std::string& name : estimator_names()) methods.push_back(std::move(name));
    return methods;
}

Needs needs_of(const std::string& method, LossEstimator estimator) {
    return needs_of(estimator) | needs_of(find_estimator(method).value_or(estimator));
}

bool needs_statistics(const std::string& method) {
    return method != "uniform" && method != "random" && method != "layer-type" &&
           method != "layer-id";
}

double met_target(const Plan& plan, const LayerTable& table, const PlannerOptions& options) {
    const EfficiencyModel model(table, options.efficiency, options.profile.get());
    std::vector<double> work(static_cast<std::size_t>(stage_count(table)), 0.0);
    std::vector<double> saved(work.size(), 0.0);
    for (std::size_t i = 0; i < table.size(); ++i) {
        const auto stage = static_cast<std::size_t>(table[i].stage);
        for (const Slot slot : kSlots) {
            if (!table[i].plans(slot)) continue;
            work[stage] += model.work(i, slot);
            saved[stage] += model.saved(i, slot, find_recipe(plan.recipe(table[i].name, slot)));
        }
    }
    double target = 1;
    for (std::size_t s = 0; s < work.size(); ++s) {
        if (work[s] > 0) target = std::min(target, saved[s] / work[s]);
    }
    return std::max(0.0, target);
}

namespace {

// What the options ask for, with costs where they are known.
PlanTask task_of(const LayerTable& table, const ModelStatistics& statistics,
                 const PlannerOptions& options, PlanResult& result) {
    check(options);
    PlanTask task = make_task(table, options);
    if (!statistics.layers.empty() || needs_statistics(options.method)) {
        set_costs(task, table, statistics, options);
    }
    result.efficiency = options.efficiency;
    result.target = options.target;
    result.relaxed = task.relaxed;
    result.notes = task.notes;
    return task;
}

}  // namespace

PlanResult make_plan(const LayerTable& table, const ModelStatistics& statistics,
                     const PlannerOptions& options) {
    const auto start = std::chrono::steady_clock::now();
    PlanResult result;
    const PlanTask task = task_of(table, statistics, options, result);
    const std::vector<std::size_t> choice = choose(task, table, options, result);
    result.plan = plan_of(task, table, choice);
    result.plan.method = options.method;
    measure(task, choice, result);
    predict(task, choice, options, result);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
}

PlanResult describe_plan(const Plan& plan, const LayerTable& table,
                         const ModelStatistics& statistics, const PlannerOptions& options) {
    PlanResult result;
    const PlanTask task = task_of(table, statistics, options, result);
    std::vector<std::size_t> choice;
    for (const int option : choice_of(task, table, plan)) {
        if (option < 0) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("the plan gives '{}' what is no option",
                                    task.units[choice.size()].name),
                        fmt::format("options: {}", fmt::join(options.recipes, ", ")));
        }
        choice.push_back(static_cast<std::size_t>(option));
    }
    result.plan = plan;
    measure(task, choice, result);
    predict(task, choice, options, result);
    return result;
}

}  // namespace subbyte::plan
