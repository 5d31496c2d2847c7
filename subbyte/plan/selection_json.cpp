// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/selection_json.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "subbyte/plan/json_reader.h"

namespace subbyte::plan {
namespace {

constexpr int kMostStages = 1 << 16;

void demand_size(const JsonReader& reader, std::size_t expected, const char* of) {
    if (reader.size() != expected) {
        reader.fail(fmt::format("{} entries for {} {}", reader.size(), expected, of));
    }
}

double read_cost(const JsonReader& reader) {
    if (!reader.is_text()) return reader.number();
    if (reader.text() != "inf") reader.fail("a number or \"inf\" expected");
    return std::numeric_limits<double>::infinity();
}

// Sets the targets and returns whether one constraint covers all layers.
bool read_constraints(const JsonReader& constraints, SelectionProblem& problem) {
    for (std::size_t i = 0; i < constraints.size(); ++i) {
        const JsonReader entry = constraints[i];
        entry.allow({"stage", "min_gain"});
        const auto stage = entry["stage"].integer(-1, kMostStages);
        const double target = entry["min_gain"].number();
        if (stage < 0) {
            if (constraints.size() != 1) entry.fail("stage -1 (all layers) stands alone");
            problem.target = {target};
            return true;
        }
        const auto index = static_cast<std::size_t>(stage);
        // NaN marks a stage without a constraint until all are read.
        if (problem.target.size() <= index) {
            problem.target.resize(index + 1, std::numeric_limits<double>::quiet_NaN());
        }
        if (problem.target[index] == problem.target[index]) {
            entry.fail(fmt::format("stage {} has two constraints", stage));
        }
        problem.target[index] = target;
    }
    for (double& target : problem.target) {
        if (target != target) target = 0.0;
    }
    return false;
}

}  // namespace

SelectionProblem problem_from_json(const nlohmann::json& json) {
    const JsonReader reader(json, "instance");
    reader.allow({"name", "names", "layers", "options_sixteenths", "stages", "stage_rule",
                  "efficiency_target", "weights", "stage_of_layer", "cost", "locked_to_option_0",
                  "constraints", "status", "objective", "dp_objective", "one_optimal_choice",
                  "unconstrained_minimum", "brute_force"});
    const std::vector<double> sixteenths = reader["options_sixteenths"].numbers(0);
    const std::vector<double> weights = reader["weights"].numbers(0);
    const JsonReader cost = reader["cost"];
    demand_size(cost, weights.size(), "weights");

    SelectionProblem problem;
    const bool global = read_constraints(reader["constraints"], problem);
    if (problem.target.empty()) problem.target = {0.0};
    problem.items.resize(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
        auto& item = problem.items[i];
        item.name = fmt::format("layer {}", i);
        demand_size(cost[i], sixteenths.size(), "options");
        for (std::size_t j = 0; j < sixteenths.size(); ++j) {
            item.cost.push_back(read_cost(cost[i][j]));
            item.gain.push_back(weights[i] * sixteenths[j]);
        }
    }
    if (reader.has("names")) {
        const JsonReader names = reader["names"];
        demand_size(names, weights.size(), "weights");
        for (std::size_t i = 0; i < weights.size(); ++i) problem.items[i].name = names[i].text();
    }
    if (reader.has("stage_of_layer")) {
        const JsonReader stages = reader["stage_of_layer"];
        demand_size(stages, weights.size(), "weights");
        for (std::size_t i = 0; i < weights.size() && !global; ++i) {
            const auto stage = static_cast<int>(stages[i].integer(0, kMostStages));
            problem.items[i].group = stage;
            if (problem.target.size() <= static_cast<std::size_t>(stage)) {
                problem.target.resize(static_cast<std::size_t>(stage) + 1, 0.0);
            }
        }
    }
    if (reader.has("locked_to_option_0")) {
        const JsonReader locked = reader["locked_to_option_0"];
        for (std::size_t i = 0; i < locked.size(); ++i) {
            const auto last = static_cast<std::int64_t>(weights.size()) - 1;
            auto& item = problem.items[static_cast<std::size_t>(locked[i].integer(0, last))];
            for (std::size_t j = 1; j < item.cost.size(); ++j) {
                item.cost[j] = std::numeric_limits<double>::infinity();
            }
        }
    }
    return problem;
}

nlohmann::json to_json(const Selection& selection) {
    nlohmann::json json{{"status", status_name(selection.status)},
                        {"choice", selection.choice},
                        {"gain", selection.gain},
                        {"best_gain", selection.best_gain},
                        {"gap", selection.gap},
                        {"seconds", selection.seconds}};
    json["objective"] =
        selection.choice.empty() ? nlohmann::json() : nlohmann::json(selection.objective);
    return json;
}

}  // namespace subbyte::plan
