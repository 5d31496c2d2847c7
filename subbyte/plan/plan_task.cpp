// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/plan_task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"
#include "subbyte/plan/measured_times.h"
#include "subbyte/plan/statistics_check.h"

namespace subbyte::plan {
namespace {

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts(1);
    for (const char c : text) {
        if (c == '+') {
            parts.emplace_back();
        } else {
            parts.back() += c;
        }
    }
    return parts;
}

[[noreturn]] void refuse(const std::string& coupling, const std::string& what,
                         const std::string& hint) {
    throw Error(ErrorCode::kUsage, fmt::format("coupled '{}': {}", coupling, what), hint);
}

// Number of the coupling that a layer type or a slot belongs to.
struct Couplings {
    std::map<std::string, int> types;
    std::array<int, 3> slots{-1, -1, -1};
};

void add_slots(Couplings& result, const PlannerOptions& options, int number,
               const std::vector<std::string>& parts) {
    const std::string& text = options.coupled[static_cast<std::size_t>(number)];
    if (options.granularity != Granularity::kGemm) {
        refuse(text, "a layer has one recipe for all its slots",
               "couple slots with granularity gemm only");
    }
    for (const std::string& part : parts) {
        const auto slot = std::find_if(kSlots.begin(), kSlots.end(),
                                       [&](Slot s) { return slot_name(s) == part; });
        if (slot == kSlots.end()) {
            refuse(text, fmt::format("'{}' is no slot", part), "fprop, dgrad, wgrad");
        }
        int& coupling = result.slots[static_cast<std::size_t>(*slot)];
        if (coupling >= 0) refuse(text, fmt::format("'{}' is coupled twice", part), "");
        coupling = number;
    }
}

void add_types(Couplings& result, const LayerTable& table, const std::string& text, int number,
               const std::vector<std::string>& parts) {
    std::vector<std::string> known;
    for (const LayerInfo& layer : table) known.push_back(layer.type);
    for (const std::string& part : parts) {
        if (std::find(known.begin(), known.end(), part) == known.end()) {
            refuse(text, fmt::format("no layer is of type '{}'", part), nearest_hint(part, known));
        }
        if (!result.types.emplace(part, number).second) {
            refuse(text, fmt::format("'{}' is coupled twice", part), "name every type once");
        }
    }
}

Couplings read_couplings(const LayerTable& table, const PlannerOptions& options) {
    Couplings result;
    for (std::size_t i = 0; i < options.coupled.size(); ++i) {
        const std::vector<std::string> parts = split(options.coupled[i]);
        const int number = static_cast<int>(i);
        if (parts.size() < 2) {
            refuse(options.coupled[i], "one name alone",
                   "join what belongs together by +, e.g. gate_proj+up_proj");
        }
        const bool slots = std::any_of(kSlots.begin(), kSlots.end(),
                                       [&](Slot s) { return slot_name(s) == parts.front(); });
        if (slots) {
            add_slots(result, options, number, parts);
        } else {
            add_types(result, table, options.coupled[i], number, parts);
        }
    }
    return result;
}

std::vector<PlanUnit> make_units(const LayerTable& table, const PlannerOptions& options) {
    const Couplings couplings = read_couplings(table, options);
    // A unit is known by its layers and its slots: (-1, index) for a layer alone or
    // (coupling, block), and the coupling of the slots or their number.
    std::map<std::array<int, 3>, std::size_t> known;
    std::vector<PlanUnit> units;
    for (std::size_t i = 0; i < table.size(); ++i) {
        const LayerInfo& layer = table[i];
        const auto coupled = couplings.types.find(layer.type);
        for (const Slot slot : kSlots) {
            if (!layer.plans(slot)) continue;
            const int number = static_cast<int>(slot);
            const int coupling = couplings.slots[static_cast<std::size_t>(slot)];
            std::array<int, 3> key{-1, static_cast<int>(i), 0};
            if (coupled != couplings.types.end()) key = {coupled->second, layer.block, 0};
            if (options.granularity == Granularity::kGemm) {
                key[2] = coupling >= 0 ? coupling + 3 : number;
            }
            const auto [entry, fresh] = known.emplace(key, units.size());
            if (fresh) units.emplace_back().stage = layer.stage;
            PlanUnit& unit = units[entry->second];
            if (unit.stage != layer.stage) {
                throw Error(ErrorCode::kUsage,
                            fmt::format("'{}' is coupled with layers of pipeline stage {} and is "
                                        "in stage {}",
                                        layer.name, unit.stage, layer.stage),
                            "coupled layers belong to one stage");
            }
            std::string name = layer.name;
            if (options.granularity == Granularity::kGemm) {
                name += fmt::format(".{}", slot_name(slot));
            }
            const bool named = !unit.gemms.empty() && unit.gemms.back().first == i &&
                               options.granularity == Granularity::kLayer;
            if (!named) unit.name += (unit.name.empty() ? "" : " + ") + name;
            unit.gemms.emplace_back(i, slot);
        }
    }
    return units;
}

std::string stages_text(const std::vector<std::size_t>& stages) {
    return fmt::format("{}", fmt::join(stages, ", "));
}

// Lowers the targets that no choice reaches.
void relax(PlanTask& task, const PlannerOptions& options) {
    double demanded = 0, possible = 0;
    std::vector<std::size_t> short_stages;
    for (std::size_t s = 0; s < task.stages.size(); ++s) {
        PlanTask::Stage& stage = task.stages[s];
        demanded += stage.target;
        if (stage.target > stage.best + 1e-9 * std::abs(stage.target)) {
            short_stages.push_back(s);
            stage.target = stage.best;
        }
        possible += stage.target;
    }
    if (short_stages.empty()) return;
    task.relaxed = true;
    const bool all = short_stages.size() == task.stages.size();
    task.notes.push_back(fmt::format(
        "target {:.4g} is out of reach{} with {}: relaxed to {:.4g}", options.target,
        all ? "" : fmt::format(" in stage {}", stages_text(short_stages)),
        fmt::join(options.recipes, ", "), demanded > 0 ? options.target * possible / demanded : 0));
}

void note_what_does_not_pay(PlanTask& task, const LayerTable& table,
                            const PlannerOptions& options) {
    const std::vector<MeasuredTime> times =
        measured_times(table, *options.profile, options.recipes);
    for (const std::string& recipe : options.recipes) {
        std::vector<std::string> layers;
        for (const MeasuredTime& time : times) {
            if (time.recipe != recipe || time.pays() || recipe == "bf16") continue;
            layers.push_back(
                fmt::format("{} ({}x{}x{}: {:.3g} ms, {:.3g} of them quantising; bf16 {:.3g} ms)",
                            time.type, time.tokens, time.in_features, time.out_features,
                            1e3 * time.seconds, 1e3 * time.quantise, 1e3 * time.bf16_seconds));
        }
        if (layers.empty()) continue;
        task.notes.push_back(
            fmt::format("'{}' saves no time in {}", recipe, fmt::join(layers, ", ")));
    }
}

// The measured layer that stands for every layer of the table that is a candidate.
class MeasuredLayers {
public:
    MeasuredLayers(const LayerTable& table, const ModelStatistics& statistics,
                   const PlannerOptions& options)
        : index_(table.size(), 0) {
        std::map<std::string, std::size_t> by_name;
        for (std::size_t i = 0; i < statistics.table.size(); ++i) {
            if (statistics.table[i].candidate) by_name[statistics.table[i].name] = i;
        }
        for (std::size_t i = 0; i < table.size(); ++i) {
            if (!table[i].candidate) continue;
            const auto entry = by_name.find(table[i].name);
            const bool found = entry != by_name.end() && !options.stretch_statistics;
            index_[i] = found                        ? entry->second
                        : options.stretch_statistics ? nearest_depth(table, i, statistics.table)
                                                     : missing(table[i], options.method);
        }
    }

    std::size_t operator[](std::size_t layer) const { return index_[layer]; }

private:
    static std::size_t missing(const LayerInfo& layer, const std::string& method) {
        throw Error(
            ErrorCode::kUsage,
            fmt::format("planning by '{}': no statistics of layer '{}'", method, layer.name),
            "measure it, take statistics of another model as they stretch over this one "
            "(--stretch), or plan without by uniform, random, layer-type or layer-id");
    }

    static double depth(const LayerTable& table, const LayerInfo& layer) {
        int last = 0;
        for (const LayerInfo& other : table) last = std::max(last, other.block);
        return last > 0 ? static_cast<double>(layer.block) / last : 0.0;
    }

    static std::size_t nearest_depth(const LayerTable& table, std::size_t layer,
                                     const LayerTable& measured) {
        const double wanted = depth(table, table[layer]);
        std::size_t best = measured.size();
        double distance = 2;
        for (std::size_t i = 0; i < measured.size(); ++i) {
            if (!measured[i].candidate || measured[i].type != table[layer].type) continue;
            const double d = std::abs(depth(measured, measured[i]) - wanted);
            if (d < distance) {
                distance = d;
                best = i;
            }
        }
        if (best < measured.size()) return best;
        throw Error(ErrorCode::kUsage,
                    fmt::format("no statistics of a layer of type '{}' stand for '{}'",
                                table[layer].type, table[layer].name),
                    "use statistics of a model of the same kind");
    }

    std::vector<std::size_t> index_;
};

void set_local_costs(PlanTask& task, const ModelStatistics& statistics,
                     const MeasuredLayers& measured, bool relative, bool own_operands) {
    for (PlanUnit& unit : task.units) {
        unit.cost.assign(task.recipes.size(), 0.0);
        for (std::size_t r = 0; r < task.recipes.size(); ++r) {
            for (const auto& [layer, slot] : unit.gemms) {
                const std::size_t l = measured[layer];
                const auto errors = quantisation_errors(
                    statistics.layers[l], statistics.table[l].name, task.recipes[r].name);
                unit.cost[r] +=
                    local_error(statistics.layers[l], errors, slot, relative, own_operands);
            }
        }
    }
}

void note_unmeasured(PlanTask& task, const LayerTable& table, const ModelStatistics& statistics,
                     const MeasuredLayers& measured) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (table[i].candidate && is_unmeasured(statistics.layers[measured[i]])) {
            names.push_back(table[i].name);
        }
    }
    if (names.empty()) return;
    task.notes.push_back(
        fmt::format("not measured, taken as harmless: {}", fmt::join(names, ", ")));
}

// DL and DW of the units, and Q as their cost.
void set_divergences(PlanTask& task, const LayerTable& table, const ModelStatistics& statistics,
                     const MeasuredLayers& measured, const PlannerOptions& options) {
    const auto q = [&](const Divergence& d) {
        const double sum = options.loss_weight * d.loss + options.weight_weight * d.weight;
        return options.squared ? sum * sum : sum;
    };
    const bool layers = options.granularity == Granularity::kLayer;
    const auto parts =
        layers ? std::vector<std::vector<std::array<Divergence, 3>>>{}
               : estimate_slot_divergence(statistics, options.recipes, options.estimator);
    if (layers) check_statistics(statistics);
    // Of what the unit decides in this layer.
    const auto divergence = [&](std::size_t layer, Slot slot, std::size_t r) {
        const std::size_t l = measured[layer];
        if (!layers) return parts[l][r][static_cast<std::size_t>(slot)];
        return layer_divergence(statistics, l, table[layer].with(options.recipes[r]),
                                options.estimator);
    };
    for (PlanUnit& unit : task.units) {
        unit.cost.assign(task.recipes.size(), 0.0);
        unit.divergence.assign(task.recipes.size(), {});
        std::size_t last = table.size();
        for (const auto& [layer, slot] : unit.gemms) {
            if (layers && layer == last) continue;  // a layer counts once
            last = layer;
            for (std::size_t r = 0; r < task.recipes.size(); ++r) {
                const Divergence d = divergence(layer, slot, r);
                unit.divergence[r].loss += d.loss;
                unit.divergence[r].weight += d.weight;
                unit.cost[r] += q(d);
            }
        }
    }
}

// DL alone by the estimator that the method names, and DW so small beside it that it only decides
// between plans of the same DL: that of dgrad and wgrad is 0. What is predicted of the plan stays
// that of the options.
void set_estimator_costs(PlanTask& task, const LayerTable& table, const ModelStatistics& statistics,
                         const MeasuredLayers& measured, LossEstimator estimator,
                         PlannerOptions options) {
    constexpr double kBeside = 1e-10;
    options.estimator = estimator;
    PlanTask rival = task;
    set_divergences(rival, table, statistics, measured, options);
    double loss = 0, weight = 0;
    for (const PlanUnit& unit : rival.units) {
        for (const Divergence& d : unit.divergence) {
            loss += d.loss;
            weight += d.weight;
        }
    }
    const double factor = loss > 0 && weight > 0 ? kBeside * loss / weight : 1.0;
    for (std::size_t u = 0; u < task.units.size(); ++u) {
        for (std::size_t r = 0; r < task.recipes.size(); ++r) {
            const Divergence& d = rival.units[u].divergence[r];
            task.units[u].cost[r] = d.loss + factor * d.weight;
        }
    }
}

}  // namespace

PlanTask make_task(const LayerTable& table, const PlannerOptions& options) {
    PlanTask task;
    for (const std::string& name : options.recipes) task.recipes.push_back(find_recipe(name));
    task.stages.resize(static_cast<std::size_t>(stage_count(table)));
    task.units = make_units(table, options);
    const EfficiencyModel model(table, options.efficiency, options.profile.get());
    for (PlanUnit& unit : task.units) {
        unit.saved.assign(task.recipes.size(), 0.0);
        for (const auto& [layer, slot] : unit.gemms) {
            unit.work += model.work(layer, slot);
            for (std::size_t r = 0; r < task.recipes.size(); ++r) {
                unit.saved[r] += model.saved(layer, slot, task.recipes[r]);
            }
        }
        PlanTask::Stage& stage = task.stages[static_cast<std::size_t>(unit.stage)];
        stage.work += unit.work;
        stage.target += options.target * unit.work;
        stage.best += *std::max_element(unit.saved.begin(), unit.saved.end());
    }
    const std::vector<std::string> shapes = model.interpolated();
    if (!shapes.empty()) {
        task.notes.push_back(
            fmt::format("no times measured of {}: interpolated", fmt::join(shapes, ", ")));
    }
    if (options.efficiency == Efficiency::kSeconds) note_what_does_not_pay(task, table, options);
    relax(task, options);
    return task;
}

void set_costs(PlanTask& task, const LayerTable& table, const ModelStatistics& statistics,
               const PlannerOptions& options) {
    const MeasuredLayers measured(table, statistics, options);
    if (options.stretch_statistics) {
        task.notes.push_back(
            "assumed: statistics of another model, layers of the same type at the same relative "
            "depth");
    }
    set_divergences(task, table, statistics, measured, options);
    note_unmeasured(task, table, statistics, measured);
    if (options.method == "min-abs-err" || options.method == "min-rel-err") {
        set_local_costs(task, statistics, measured, options.method == "min-rel-err",
                        options.granularity == Granularity::kGemm);
    } else if (const auto estimator = find_estimator(options.method)) {
        set_estimator_costs(task, table, statistics, measured, *estimator, options);
    }
}

SelectionProblem to_problem(const PlanTask& task, const LayerTable& table, const Plan& start) {
    SelectionProblem problem;
    for (const PlanTask::Stage& stage : task.stages) problem.target.push_back(stage.target);
    for (const PlanUnit& unit : task.units) {
        const double least = std::min(0.0, *std::min_element(unit.saved.begin(), unit.saved.end()));
        std::vector<double> gain;
        for (const double saved : unit.saved) gain.push_back(saved - least);
        problem.target[static_cast<std::size_t>(unit.stage)] -= least;
        problem.items.push_back(
            {.name = unit.name, .cost = unit.cost, .gain = std::move(gain), .group = unit.stage});
    }
    if (!start.layers.empty()) problem.start = choice_of(task, table, start);
    return problem;
}

std::vector<int> choice_of(const PlanTask& task, const LayerTable& table, const Plan& plan) {
    std::vector<int> choice;
    for (const PlanUnit& unit : task.units) {
        const auto given = [&](const std::pair<std::size_t, Slot>& gemm) -> const std::string& {
            return plan.recipe(table[gemm.first].name, gemm.second);
        };
        int chosen = -1;
        for (std::size_t r = 0; r < task.recipes.size() && chosen < 0; ++r) {
            const bool same = std::all_of(unit.gemms.begin(), unit.gemms.end(), [&](const auto& g) {
                return given(g) == task.recipes[r].name;
            });
            if (same) chosen = static_cast<int>(r);
        }
        choice.push_back(chosen);
    }
    return choice;
}

Plan plan_of(const PlanTask& task, const LayerTable& table,
             const std::vector<std::size_t>& choice) {
    Plan plan;
    for (std::size_t u = 0; u < choice.size(); ++u) {
        for (const auto& [layer, slot] : task.units[u].gemms) {
            plan.layers[table[layer].name][static_cast<std::size_t>(slot)] =
                task.recipes[choice[u]].name;
        }
    }
    apply_pins(plan, table);
    return plan;
}

}  // namespace subbyte::plan
