// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte inspect plan PLAN.json [--stats FILE] [--layer GLOB]
// subbyte inspect stats FILE [--layer GLOB]
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "subbyte/cli/inspect.h"
#include "subbyte/cli/output.h"
#include "subbyte/cli/plan.h"
#include "subbyte/core/error.h"
#include "subbyte/plan/stages.h"
#include "subbyte/train/inspect_plan.h"
#include "subbyte/train/plan_file.h"

namespace subbyte::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;
using Json = nlohmann::ordered_json;

struct ExplainArguments {
    std::string file, stats, layer;
    PlanArguments plan;
    bool json = false;
};

std::string share_text(const Json& value) {
    return fmt::format("{:.1f}%", 100 * value.get<double>());
}
std::string short_number(const Json& value) { return fmt::format("{:.2e}", value.get<double>()); }

// "fp4 21, fp8 3"
std::string counts_text(const Json& counts) {
    std::vector<std::string> parts;
    for (const auto& [name, count] : counts.items()) {
        parts.push_back(fmt::format("{} {}", name, count.get<int>()));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
}

std::string plan_types_text(const Json& types) {
    Rows rows{{"type", "layers", "planned"}};
    for (const Json& type : types) {
        rows.push_back({type["type"], type["layers"].dump(), counts_text(type["planned"])});
    }
    return table_text(rows);
}

std::string explained_types_text(const Json& types) {
    Rows rows{{"type", "units", "work", "of DL", "of DW", "planned"}};
    for (const Json& type : types) {
        rows.push_back({type["type"], type["units"].dump(), share_text(type["work"]),
                        share_text(type["loss_share"]), share_text(type["weight_share"]),
                        counts_text(type["planned"])});
    }
    return table_text(rows);
}

// The option that the unit would move to first, and what has to happen.
std::string move_text(const Json& unit) {
    const Json* next = nullptr;
    const Json* now = nullptr;
    bool out_of_reach = false;
    for (const Json& option : unit["options"]) {
        if (option["recipe"] == unit["planned"]) {
            now = &option;
        } else if (option["flip"].is_number()) {
            if (next == nullptr || option["flip"] < (*next)["flip"]) next = &option;
        } else {
            out_of_reach = out_of_reach || option["flip"].is_string();
        }
    }
    if (next == nullptr) return out_of_reach ? "nowhere: the target needs it" : "-";
    const double flip = (*next)["flip"], cost = (*now)["cost"];
    const std::string recipe = (*next)["recipe"];
    if (flip < 0) return fmt::format("to {}: now, it would be {:.2e} better", recipe, -flip);
    const std::string percent =
        cost > 0 ? fmt::format(" (+{:.3g}%)", 100 * flip / cost) : std::string();
    return fmt::format("to {}: if it cost {:.2e} more{}", recipe, flip, percent);
}

std::string units_text(const Json& units) {
    Rows rows{{"layer", "planned", "rank", "work", "of DL", "of DW", "cost / saved", "moves"}};
    for (const Json& unit : units) {
        rows.push_back({unit["name"], unit["planned"], unit["rank"].dump(),
                        share_text(unit["work"]), share_text(unit["loss_share"]),
                        share_text(unit["weight_share"]), short_number(unit["cost_per_saved"]),
                        move_text(unit)});
    }
    return table_text(rows);
}

// The recipes that a plan uses.
std::vector<std::string> recipes_of(const plan::Plan& plan) {
    std::vector<std::string> names;
    for (const auto& [layer, slots] : plan.layers) {
        for (const std::string& name : slots) {
            if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        }
    }
    return names;
}

// Only what the plan names is a candidate: the rest was fixed by rules.
void keep_planned(plan::LayerTable& table, const plan::Plan& plan) {
    for (plan::LayerInfo& layer : table) {
        layer.candidate = layer.candidate && plan.layers.contains(layer.name);
    }
}

bool mixed_slots(const plan::Plan& plan) {
    for (const auto& [layer, slots] : plan.layers) {
        if (slots[0] != slots[1] || slots[0] != slots[2]) return true;
    }
    return false;
}

Json explained(const ExplainArguments& a, const CLI::App& verb) {
    plan::ModelStatistics statistics = train::read_statistics(a.stats);
    const plan::Plan plan = train::load_plan(a.file, statistics.table);
    keep_planned(statistics.table, plan);
    if (verb.count("--stages") > 0) plan::balance_stages(statistics.table, a.plan.stages);
    if (!a.plan.stage_starts.empty()) {
        plan::set_stages(statistics.table, a.plan.stage_starts);
    }
    plan::PlannerOptions options = planner_options(a.plan);
    options.method = a.plan.methods.front();
    if (verb.count("--options") == 0) {
        options.recipes = plan::measured_recipes(statistics);
        for (const std::string& name : recipes_of(plan)) {
            if (std::find(options.recipes.begin(), options.recipes.end(), name) ==
                options.recipes.end()) {
                options.recipes.push_back(name);
            }
        }
    }
    if (verb.count("--granularity") == 0) {
        options.granularity =
            mixed_slots(plan) ? plan::Granularity::kGemm : plan::Granularity::kLayer;
    }
    options.target = verb.count("--target") > 0 ? a.plan.targets.front()
                                                : plan::met_target(plan, statistics.table, options);
    return train::to_json(plan::explain_plan(plan, statistics.table, statistics, options,
                                             [&](const std::string& unit) {
                                                 return train::unit_matches(a.layer, unit);
                                             }),
                          a.layer);
}

void show_plan(const ExplainArguments& a, const CLI::App& verb) {
    const plan::Plan plan = train::load_plan(a.file);
    Json json{{"kind", "plan"}, {"method", plan.method}, {"fallback", plan.fallback}};
    if (a.stats.empty()) {
        if (!a.layer.empty()) {
            throw Error(ErrorCode::kUsage, "--layer explains by statistics, and there are none",
                        "give --stats FILE");
        }
        json["types"] = train::plan_types(plan);
        if (a.json) return print_json(json);
        return print(fmt::format("plan by {}, {} layers; others: {}\n", plan.method,
                                 plan.layers.size(), plan.fallback) +
                     plan_types_text(json["types"]));
    }
    json.update(explained(a, verb));
    if (a.json) return print_json(json);
    const double objective = json["objective"], best = json["best_objective"];
    print(
        fmt::format("plan by {}: efficiency {} of {} asked for; objective {:.4e}, the best at "
                    "this target {:.4e} ({:+.2f}%)\n\n",
                    plan.method, share_text(json["reached"]), share_text(json["target"]), objective,
                    best, best > 0 ? 100 * (objective / best - 1) : 0.0));
    print(explained_types_text(json["types"]) + "\n" + units_text(json["units"]));
    for (const Json& note : json["notes"]) print("note: " + note.get<std::string>() + "\n");
}

std::string sensitivities_text(const Json& json) {
    Rows types{{"type", "layers", "work", "recipe", "of DL", "of DW"}};
    for (const Json& type : json["types"]) {
        for (const auto& [recipe, shares] : type["recipes"].items()) {
            types.push_back({type["type"], type["layers"].dump(), share_text(type["work"]), recipe,
                             share_text(shares["loss_share"]), share_text(shares["weight_share"])});
        }
    }
    Rows rows{
        {"layer", "recipe", "error X", "error W", "error G", "DL", "DW", "of DL", "of DW", "rank"}};
    for (const Json& layer : json["layers"]) {
        for (const Json& r : layer["recipes"]) {
            rows.push_back(
                {layer["name"], r["recipe"], share_text(r["x_error"]), share_text(r["w_error"]),
                 share_text(r["g_error"]), short_number(r["loss"]), short_number(r["weight"]),
                 share_text(r["loss_share"]), share_text(r["weight_share"]), r["rank"].dump()});
        }
    }
    return table_text(types) + "\n" + table_text(rows);
}

void show_statistics(const ExplainArguments& a, const CLI::App& verb) {
    const plan::ModelStatistics statistics = train::read_statistics(a.file);
    plan::PlannerOptions options = planner_options(a.plan);
    if (verb.count("--options") == 0) options.recipes = plan::measured_recipes(statistics);
    Json json{{"kind", "statistics"},
              {"step", statistics.step},
              {"loss", statistics.loss},
              {"estimator", a.plan.estimator}};
    json.update(train::to_json(plan::layer_sensitivities(statistics, options), a.layer));
    if (a.json) return print_json(json);
    print(fmt::format("statistics of step {}, loss {:.4f}; shares: of the sums over all layers, "
                      "were they all in that recipe\n\n",
                      statistics.step, statistics.loss) +
          sensitivities_text(json));
}

void add_options(CLI::App& verb, ExplainArguments& a, const char* what) {
    verb.add_option("FILE", a.file, what)->required();
    verb.add_option("--layer", a.layer, "Only layers whose name matches")->type_name("GLOB");
    verb.add_flag("--json", a.json, "As JSON");
    add_estimate_options(verb, a.plan);
    verb.add_option("--options", a.plan.options, "Recipes; without: those that were measured")
        ->delimiter(',');
}

}  // namespace

void add_inspect_plan(CLI::App& inspect) {
    auto a = std::make_shared<ExplainArguments>();
    CLI::App* plan = inspect.add_subcommand(
        "plan", "Why every layer has its recipe, and what would have to change for another one");
    add_options(*plan, *a, "Plan, or what holds one: a run, a checkpoint, a record");
    plan->add_option("--stats", a->stats, "Statistics it is explained by (JSON, or stats.jsonl)")
        ->type_name("FILE");
    add_choice_options(*plan, a->plan);
    plan->callback([plan, a] { show_plan(*a, *plan); });

    auto b = std::make_shared<ExplainArguments>();
    CLI::App* stats = inspect.add_subcommand(
        "stats", "Errors of the formats and predicted damage, layer by layer");
    add_options(*stats, *b, "Statistics (JSON, or stats.jsonl of a run)");
    stats->callback([stats, b] { show_statistics(*b, *stats); });
}

}  // namespace subbyte::cli
