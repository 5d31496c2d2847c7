// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"
#include "subbyte/plan/baselines.h"
#include "subbyte/plan/cost_model.h"

namespace subbyte::plan {
namespace {

// rows[candidate][recipe]
using Matrix = std::vector<std::vector<double>>;

// Everything the methods choose from.
struct Task {
    const LayerTable& table;
    const PlannerOptions& options;
    std::vector<Recipe> recipes;
    std::vector<std::size_t> candidates;  // indices into the table
    std::vector<double> share;            // per candidate
    std::vector<double> efficiency;       // per recipe, of one unit of work
    std::vector<double> target;           // per stage

    std::size_t stage(std::size_t c) const {
        return static_cast<std::size_t>(table[candidates[c]].stage);
    }
};

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
    }
}

double efficiency_of(const Recipe& recipe, Efficiency measure) {
    double sum = 0;
    for (const Slot slot : kSlots) {
        if (measure == Efficiency::kFp4Share) {
            sum += recipe.is_fp4(slot) ? 1.0 : 0.0;
        } else {
            sum += std::max(0.0, 1.0 - 1.0 / modelled_speed(recipe[slot]));
        }
    }
    return sum / kSlots.size();
}

Task make_task(const LayerTable& table, const PlannerOptions& options) {
    Task task{.table = table,
              .options = options,
              .recipes = {},
              .candidates = {},
              .share = {},
              .efficiency = {},
              .target = std::vector<double>(static_cast<std::size_t>(stage_count(table)), 0.0)};
    for (const std::string& name : options.recipes) {
        task.recipes.push_back(find_recipe(name));
        task.efficiency.push_back(efficiency_of(task.recipes.back(), options.efficiency));
    }
    const std::vector<double> shares = candidate_shares(table);
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (!table[i].candidate) continue;
        task.candidates.push_back(i);
        task.share.push_back(shares[i]);
        task.target[static_cast<std::size_t>(table[i].stage)] += options.target * shares[i];
    }
    return task;
}

// Lowers the targets that no choice reaches.
void relax(Task& task, PlanResult& result) {
    const double best = *std::max_element(task.efficiency.begin(), task.efficiency.end());
    if (task.options.target <= best) return;
    for (double& target : task.target) target *= best / task.options.target;
    result.relaxed = true;
    result.notes.push_back(fmt::format("target {:.4g} is out of reach with {}: relaxed to {:.4g}",
                                       task.options.target, fmt::join(task.options.recipes, ", "),
                                       best));
}

// Index in the statistics of every candidate.
std::vector<std::size_t> find_layers(const Task& task, const ModelStatistics& statistics) {
    std::unordered_map<std::string, std::size_t> index;
    for (std::size_t i = 0; i < statistics.table.size(); ++i) index[statistics.table[i].name] = i;
    std::vector<std::size_t> found;
    for (const std::size_t c : task.candidates) {
        const auto entry = index.find(task.table[c].name);
        if (entry == index.end() || !statistics.table[entry->second].candidate) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("planning by '{}': no statistics of layer '{}'",
                                    task.options.method, task.table[c].name),
                        "measure it, or plan without statistics by uniform, random, layer-type or "
                        "layer-id");
        }
        found.push_back(entry->second);
    }
    return found;
}

void note_unmeasured(const Task& task, const ModelStatistics& statistics,
                     const std::vector<std::size_t>& layer, PlanResult& result) {
    std::vector<std::string> names;
    for (std::size_t c = 0; c < task.candidates.size(); ++c) {
        if (is_unmeasured(statistics.layers[layer[c]]))
            names.push_back(task.table[task.candidates[c]].name);
    }
    if (!names.empty()) {
        result.notes.push_back(
            fmt::format("not measured, taken as harmless: {}", fmt::join(names, ", ")));
    }
}

// Local quantisation errors, absolute or relative to the norms of their tensors.
Matrix local_errors(const Task& task, const ModelStatistics& statistics,
                    const std::vector<std::size_t>& layer, bool relative) {
    const auto part = [&](double error, double norm) {
        return !relative || error == 0 ? error : error / norm;
    };
    Matrix costs;
    for (const std::size_t l : layer) {
        const LayerStatistics& s = statistics.layers[l];
        std::vector<double> row;
        for (const Recipe& recipe : task.recipes) {
            const auto e = quantisation_errors(s, statistics.table[l].name, recipe.name);
            row.push_back(part(e.ex, s.x) + part(e.ew, s.w) + part(e.eg, s.g));
        }
        costs.push_back(std::move(row));
    }
    return costs;
}

// Tells about options that no optimum needs: another one saves at least as much and costs less
// everywhere.
void note_useless_recipes(const Task& task, const Matrix& costs, PlanResult& result) {
    for (std::size_t r = 0; r < task.recipes.size(); ++r) {
        for (std::size_t other = 0; other < task.recipes.size(); ++other) {
            const bool worse = !costs.empty() && task.efficiency[other] >= task.efficiency[r] &&
                               std::all_of(costs.begin(), costs.end(),
                                           [&](const auto& row) { return row[other] < row[r]; });
            if (!worse || other == r) continue;
            result.notes.push_back(fmt::format(
                "'{}' is never chosen: '{}' counts at least as much and costs less in every "
                "layer",
                task.recipes[r].name, task.recipes[other].name));
            break;
        }
    }
}

// The cheapest choice under the budget; empty when the time limit came first.
std::vector<std::size_t> choose_cheapest(const Task& task, const Matrix& costs,
                                         PlanResult& result) {
    note_useless_recipes(task, costs, result);
    SelectionProblem problem{.items = {}, .target = task.target};
    for (std::size_t c = 0; c < task.candidates.size(); ++c) {
        std::vector<double> gain;
        for (const double efficiency : task.efficiency) gain.push_back(task.share[c] * efficiency);
        problem.items.push_back({.name = task.table[task.candidates[c]].name,
                                 .cost = costs[c],
                                 .gain = std::move(gain),
                                 .group = task.table[task.candidates[c]].stage});
    }
    const Selection selection = solve_selection(problem, task.options.limits);
    result.status = selection.status;
    result.gap = selection.gap;
    if (selection.status == SelectionStatus::kInfeasible) {
        throw Error(ErrorCode::kInternal, "planning: a relaxed target is out of reach");
    }
    if (selection.status == SelectionStatus::kFeasible) {
        result.notes.push_back(
            fmt::format("time limit of {} s: the plan may be {:.2g} % from the optimum",
                        task.options.limits.seconds, 100 * selection.gap));
    }
    if (selection.status == SelectionStatus::kNoSolution) {
        result.notes.push_back(fmt::format("no plan within {} s: the plan in force stays",
                                           task.options.limits.seconds));
    }
    return {selection.choice.begin(), selection.choice.end()};
}

// The most efficient recipe with the fewest bits, or the least efficient with the most.
std::size_t extreme_recipe(const Task& task, bool low_precision) {
    const auto rank = [&](std::size_t r) {
        return std::pair(task.efficiency[r], -task.recipes[r].element_bits());
    };
    std::size_t best = 0;
    for (std::size_t r = 1; r < task.recipes.size(); ++r) {
        if (low_precision ? rank(r) > rank(best) : rank(r) < rank(best)) best = r;
    }
    return best;
}

// Follows an order until every stage has what it needs.
std::vector<std::size_t> choose_in_order(const Task& task, const FillOrder& order) {
    const std::size_t low = extreme_recipe(task, true);
    const std::size_t high = extreme_recipe(task, false);
    std::vector<std::size_t> choice(task.candidates.size(), high);
    std::vector<double> reached(task.target.size(), 0.0);
    for (std::size_t c = 0; c < choice.size(); ++c) {
        reached[task.stage(c)] += task.share[c] * task.efficiency[high];
    }
    std::unordered_map<std::size_t, std::size_t> position;
    for (std::size_t c = 0; c < choice.size(); ++c) position[task.candidates[c]] = c;
    for (const std::vector<std::size_t>& unit : order) {
        std::vector<bool> open;
        for (std::size_t s = 0; s < reached.size(); ++s) {
            open.push_back(reached[s] < task.target[s] * (1 - 1e-9));
        }
        for (const std::size_t layer : unit) {
            const std::size_t c = position.at(layer);
            if (!open[task.stage(c)]) continue;
            choice[c] = low;
            reached[task.stage(c)] +=
                task.share[c] * (task.efficiency[low] - task.efficiency[high]);
        }
    }
    return choice;
}

// Recipe with the fewest bits; of equals the first.
std::size_t fewest_bits(const Task& task) {
    const auto best = std::min_element(
        task.recipes.begin(), task.recipes.end(),
        [](const Recipe& a, const Recipe& b) { return a.element_bits() < b.element_bits(); });
    return static_cast<std::size_t>(best - task.recipes.begin());
}

std::vector<std::size_t> choose(const Task& task, const ModelStatistics& statistics,
                                const std::vector<std::size_t>& layer, const Matrix& quality,
                                PlanResult& result) {
    const std::string& method = task.options.method;
    if (method == "uniform")
        return std::vector<std::size_t>(task.candidates.size(), fewest_bits(task));
    if (method == "random")
        return choose_in_order(task, random_order(task.table, task.options.seed));
    if (method == "layer-type") return choose_in_order(task, layer_type_order(task.table));
    if (method == "layer-id") return choose_in_order(task, layer_id_order(task.table));
    if (method == "snip") return choose_cheapest(task, quality, result);
    return choose_cheapest(task, local_errors(task, statistics, layer, method == "min-rel-err"),
                           result);
}

}  // namespace

std::string_view efficiency_name(Efficiency measure) {
    return measure == Efficiency::kFp4Share ? "fp4-share" : "time-saved";
}

std::vector<std::string> efficiency_names() { return {"fp4-share", "time-saved"}; }

Efficiency efficiency_from_name(std::string_view name) {
    for (const Efficiency measure : {Efficiency::kFp4Share, Efficiency::kTimeSaved}) {
        if (name == efficiency_name(measure)) return measure;
    }
    throw Error(ErrorCode::kUsage, fmt::format("unknown measure of efficiency '{}'", name),
                nearest_hint(name, efficiency_names()));
}

std::vector<std::string> planner_methods() {
    return {"snip", "uniform", "random", "min-abs-err", "min-rel-err", "layer-type", "layer-id"};
}

PlanResult make_plan(const LayerTable& table, const ModelStatistics& statistics,
                     const PlannerOptions& options) {
    const auto start = std::chrono::steady_clock::now();
    check(options);
    Task task = make_task(table, options);
    PlanResult result;
    result.plan.method = options.method;
    result.efficiency = options.efficiency;
    result.target = options.target;
    relax(task, result);

    const bool needs_statistics = options.method == "snip" || options.method == "min-abs-err" ||
                                  options.method == "min-rel-err";
    const bool measured = !statistics.layers.empty();
    std::vector<std::size_t> layer;
    std::vector<std::vector<Divergence>> divergence;
    Matrix quality;
    if (measured || needs_statistics) {
        layer = find_layers(task, statistics);
        divergence = estimate_divergence(statistics, options.recipes, options.estimator);
        note_unmeasured(task, statistics, layer, result);
        for (const std::size_t l : layer) {
            quality.emplace_back();
            for (const Divergence& d : divergence[l]) {
                const double q = options.loss_weight * d.loss + options.weight_weight * d.weight;
                quality.back().push_back(options.squared ? q * q : q);
            }
        }
    }
    const std::vector<std::size_t> choice = choose(task, statistics, layer, quality, result);
    for (std::size_t c = 0; c < choice.size(); ++c) {
        const std::size_t r = choice[c];
        result.plan.set(table[task.candidates[c]].name, task.recipes[r].name);
        result.reached += task.share[c] * task.efficiency[r];
        if (divergence.empty()) continue;
        const Divergence& d = divergence[layer[c]][r];
        result.predicted_loss += d.loss;
        result.predicted_weight += d.weight;
        result.predicted += options.loss_weight * d.loss + options.weight_weight * d.weight;
    }
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
}

}  // namespace subbyte::plan
