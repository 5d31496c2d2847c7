// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/inspect_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/io/json_file.h"
#include "subbyte/io/jsonl.h"
#include "subbyte/train/config_reader.h"
#include "subbyte/train/run_records.h"

namespace subbyte::train {
namespace {

namespace fs = std::filesystem;

std::optional<double> finite(const nlohmann::json& record, const char* key) {
    const nlohmann::json& value = record.at(key);
    if (!value.is_number()) return std::nullopt;  // null: was not finite
    const auto number = value.get<double>();
    return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

// Sums and medians need all steps; the view keeps what they come to.
struct Steps {
    std::vector<double> seconds, tokens_per_second;
};

void take_step(const nlohmann::json& record, Steps& steps, RunView& run) {
    run.step = record.at("step").get<std::int64_t>();
    run.total_steps = record.at("total").get<std::int64_t>();
    run.fp4_share = finite(record, "fp4_share");
    run.bits = finite(record, "bits");
    const double seconds = finite(record, "seconds").value_or(0);
    run.train_seconds += seconds;
    if (!record.at("applied").get<bool>()) return;
    run.loss = finite(record, "loss");
    steps.seconds.push_back(seconds);
    if (const auto speed = finite(record, "tokens_per_second")) {
        steps.tokens_per_second.push_back(*speed);
    }
}

void take_plan(const nlohmann::json& record, RunView& run) {
    run.plans.push_back({.step = record.at("step").get<std::int64_t>(),
                         .applied = record.at("applied").get<bool>(),
                         .changed_slots = record.at("changed_slots").get<int>(),
                         .target = finite(record, "target").value_or(0),
                         .reached = finite(record, "reached").value_or(0),
                         .efficiency = record.value("efficiency", "fp4-share"),
                         .notes = record.value("notes", std::vector<std::string>{})});
    const double measuring = finite(record, "statistics_seconds").value_or(0) +
                             finite(record, "probe_seconds").value_or(0);
    run.planning.statistics_seconds += measuring;
    run.planning.seconds += measuring + finite(record, "wait_seconds").value_or(0);
    run.planning.solve_seconds += finite(record, "solve_seconds").value_or(0);
    ++run.planning.updates;
}

void take_record(const nlohmann::json& record, Steps& steps, RunView& run) {
    const std::string& type = record.at("type").get_ref<const std::string&>();
    if (type == "run") {
        run.model = record.at("model").get<std::string>();
        run.precision = record.at("precision").get<std::string>();
        run.optimizer = record.at("optimizer").get<std::string>();
        run.parameters = finite(record, "parameters").value_or(0);
        run.slots = 3 * record.at("layers").get<std::int64_t>();
        run.total_steps = record.at("total_steps").get<std::int64_t>();
        run.state = "not finished";
    } else if (type == "step") {
        take_step(record, steps, run);
    } else if (type == "eval") {
        run.evaluations.push_back({record.at("step").get<std::int64_t>(), finite(record, "loss")});
    } else if (type == "plan") {
        take_plan(record, run);
    } else if (type == "control") {
        run.decisions.push_back(
            {record.at("step").get<std::int64_t>(), record.at("control").get<std::string>(),
             record.at("action").get<std::string>(), record.at("reason").get<std::string>()});
    } else if (type == "end") {
        run.state = record.at("interrupted").get<bool>() ? "interrupted" : "finished";
        if (const auto peak = finite(record, "peak_memory_bytes")) {
            run.peak_memory_bytes = std::max(run.peak_memory_bytes.value_or(0), *peak);
        }
    }
}

void read_log(const fs::path& path, Steps& steps, RunView& run) {
    if (!fs::is_regular_file(path)) {
        throw Error(ErrorCode::kData, fmt::format("{}: no log.jsonl in this folder", run.dir),
                    "name the folder of a run, as `subbyte train` prints it ([Run])");
    }
    const io::JsonlLog log = io::read_jsonl(path);
    if (log.torn) {
        run.notices.push_back(
            "log.jsonl: the last line is not complete (the run was killed while writing)");
    }
    for (const io::JsonlRecord& record : log.records) {
        if (record.superseded) continue;
        try {
            take_record(record.value, steps, run);
        } catch (const nlohmann::json::exception& error) {
            throw Error(ErrorCode::kData,
                        fmt::format("{}: line {}: {}", path.string(), record.line, error.what()),
                        "the log was written by another version of this program");
        }
    }
    if (log.records.empty()) run.notices.push_back("log.jsonl is empty");
}

// Names alone are enough to show a plan.
plan::LayerTable names_of(const plan::Plan& plan) {
    plan::LayerTable table;
    for (const auto& [name, recipes] : plan.layers) {
        plan::LayerInfo layer;
        layer.name = name;
        plan::set_type_and_block(layer);
        table.push_back(std::move(layer));
    }
    return table;
}

// summary.json is of the last run that ended; a plan file of a later step is newer.
void read_plan(const fs::path& folder, RunView& run) {
    const fs::path summary = folder / "summary.json";
    if (fs::is_regular_file(summary) && run.state != "not finished") {
        const nlohmann::json value = io::read_json(summary);
        if (!value.is_object() || !value.contains("plan") || !value.contains("layers")) {
            throw Error(ErrorCode::kData, summary.string() + ": has no plan or no layers");
        }
        run.table = layers_from_json(value["layers"]);
        run.plan = plan::plan_from_json(value["plan"]);
        return;
    }
    run.notices.push_back(fs::is_regular_file(summary)
                              ? "summary.json is of an earlier part of this run and not used"
                              : "no summary.json: the run has not ended");
    for (auto change = run.plans.rbegin(); change != run.plans.rend(); ++change) {
        const fs::path file = folder / "plans" / fmt::format("step_{:08}.json", change->step);
        if (!change->applied || !fs::is_regular_file(file)) continue;
        const nlohmann::json value = io::read_json(file);
        if (!value.is_object() || !value.contains("plan")) {
            throw Error(ErrorCode::kData, file.string() + ": has no plan");
        }
        run.plan = plan::plan_from_json(value["plan"]);
        run.table = names_of(run.plan);
        return;
    }
}

void read_configuration(const fs::path& folder, RunView& run) {
    const fs::path file = folder / "config.resolved.toml";
    if (!fs::is_regular_file(file)) {
        run.notices.push_back("no config.resolved.toml: the interval of planning is not known");
        return;
    }
    const Config::Precision& precision = load_config(file.string()).config.precision;
    if (precision.recipe == "snip") run.planning.interval = precision.snip.update_interval;
}

std::vector<std::string> list_files(const fs::path& folder) {
    std::vector<std::string> files;
    for (const char* name : {"config.resolved.toml", "log.jsonl", "stats.jsonl", "summary.json"}) {
        if (fs::is_regular_file(folder / name)) files.emplace_back(name);
    }
    for (const char* name : {"plans", "checkpoints"}) {
        if (!fs::is_directory(folder / name)) continue;
        std::vector<std::string> entries;
        for (const auto& entry : fs::directory_iterator(folder / name)) {
            if (!entry.is_symlink()) entries.push_back(entry.path().filename().string());
        }
        std::sort(entries.begin(), entries.end());
        if (entries.empty()) continue;
        files.push_back(entries.size() == 1 ? fmt::format("{}/{}", name, entries.front())
                                            : fmt::format("{}/{} .. {} ({})", name, entries.front(),
                                                          entries.back(), entries.size()));
    }
    return files;
}

nlohmann::ordered_json number(const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::optional<double> median(std::vector<double> values) {
    if (values.empty()) return std::nullopt;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 == 1) return *middle;
    return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::optional<double> RunView::validation_loss() const {
    for (auto e = evaluations.rbegin(); e != evaluations.rend(); ++e) {
        if (e->loss) return e->loss;
    }
    return std::nullopt;
}

RunView read_run(const std::string& dir) {
    const fs::path folder = dir;
    if (!fs::is_directory(folder)) {
        throw Error(ErrorCode::kData, fmt::format("{}: no such folder", dir),
                    "name the folder of a run, as `subbyte train` prints it ([Run])");
    }
    RunView run;
    run.dir = dir;
    run.state = "not finished";
    Steps steps;
    read_log(folder / "log.jsonl", steps, run);
    read_plan(folder, run);
    read_configuration(folder, run);
    run.median_step_seconds = median(steps.seconds);
    run.tokens_per_second = median(steps.tokens_per_second);
    PlanningCost& planning = run.planning;
    const double plain = run.train_seconds - planning.seconds;
    if (planning.updates > 0 && plain > 0) {
        planning.share_of_training = planning.seconds / plain;
        planning.statistics_share = planning.statistics_seconds / plain;
    }
    if (planning.updates > 0 && plain > 0) {
        planning.step_seconds = plain / static_cast<double>(steps.seconds.size());
        const double period = planning.updates * 500 * planning.step_seconds;
        planning.share_at_500 = planning.seconds / period;
        planning.statistics_share_at_500 = planning.statistics_seconds / period;
    }
    run.files = list_files(folder);
    return run;
}

std::optional<double> ComparedNumber::difference_percent() const {
    if (!first || !second || *second == 0) return std::nullopt;
    return 100.0 * (*first - *second) / *second;
}

std::vector<ComparedNumber> compare_runs(const RunView& first, const RunView& second) {
    return {{"validation loss", "", first.validation_loss(), second.validation_loss()},
            {"tokens/s", "", first.tokens_per_second, second.tokens_per_second},
            {"peak memory", "bytes", first.peak_memory_bytes, second.peak_memory_bytes},
            {"FP4 share", "", first.fp4_share, second.fp4_share},
            {"bits", "", first.bits, second.bits}};
}

nlohmann::ordered_json to_json(const RunView& run) {
    nlohmann::ordered_json result{{"run_dir", run.dir},
                                  {"model", run.model},
                                  {"parameters", run.parameters},
                                  {"precision", run.precision},
                                  {"optimizer", run.optimizer},
                                  {"step", run.step},
                                  {"total_steps", run.total_steps},
                                  {"state", run.state},
                                  {"loss", number(run.loss)},
                                  {"validation_loss", number(run.validation_loss())},
                                  {"tokens_per_second", number(run.tokens_per_second)},
                                  {"median_step_seconds", number(run.median_step_seconds)},
                                  {"train_seconds", run.train_seconds},
                                  {"peak_memory_bytes", number(run.peak_memory_bytes)},
                                  {"fp4_share", number(run.fp4_share)},
                                  {"bits", number(run.bits)},
                                  {"evaluations", nlohmann::ordered_json::array()},
                                  {"plans", nlohmann::ordered_json::array()}};
    for (const RunView::Evaluation& e : run.evaluations) {
        result["evaluations"].push_back({{"step", e.step}, {"loss", number(e.loss)}});
    }
    for (const RunView::PlanChange& p : run.plans) {
        result["plans"].push_back({{"step", p.step},
                                   {"applied", p.applied},
                                   {"changed_slots", p.changed_slots},
                                   {"efficiency", p.efficiency},
                                   {"target", p.target},
                                   {"reached", p.reached},
                                   {"notes", p.notes}});
    }
    result["decisions"] = nlohmann::ordered_json::array();
    for (const RunView::Decision& d : run.decisions) {
        result["decisions"].push_back(
            {{"step", d.step}, {"control", d.control}, {"action", d.action}, {"reason", d.reason}});
    }
    result["planning"] = {{"updates", run.planning.updates},
                          {"interval", run.planning.interval},
                          {"seconds", run.planning.seconds},
                          {"solve_seconds", run.planning.solve_seconds},
                          {"share_of_training", run.planning.share_of_training},
                          {"share_at_500", run.planning.share_at_500},
                          {"statistics_share", run.planning.statistics_share},
                          {"statistics_share_at_500", run.planning.statistics_share_at_500}};
    result["plan"] = plan::to_json(run.plan);
    result["files"] = run.files;
    result["notices"] = run.notices;
    return result;
}

nlohmann::ordered_json to_json(const std::vector<ComparedNumber>& numbers) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const ComparedNumber& n : numbers) {
        rows.push_back({{"name", n.name},
                        {"first", number(n.first)},
                        {"second", number(n.second)},
                        {"difference_percent", number(n.difference_percent())}});
    }
    return rows;
}

}  // namespace subbyte::train
