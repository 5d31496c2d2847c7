// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/plan_checkpoint.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/io/checkpoint.h"
#include "subbyte/io/json_file.h"
#include "subbyte/nn/attach.h"
#include "subbyte/ops/noise_role.h"
#include "subbyte/plan/cost_model.h"
#include "subbyte/plan/statistics_check.h"
#include "subbyte/train/config_reader.h"
#include "subbyte/train/config_rules.h"
#include "subbyte/train/optimizer_setup.h"
#include "subbyte/train/precision_setup.h"
#include "subbyte/train/run_folder.h"
#include "subbyte/train/training_data.h"

namespace subbyte::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kFillSteps = 8;

void check(const CheckpointOptions& options) {
    if (options.batch_size >= 1 && options.seq_len >= 1 && options.batches >= 1 &&
        options.measured_batches >= 1) {
        return;
    }
    throw Error(
        ErrorCode::kUsage,
        fmt::format("plan: batch size {}, sequence length {}, {} measured batches, {} "
                    "batches to evaluate on",
                    options.batch_size, options.seq_len, options.measured_batches, options.batches),
        "each must be at least 1");
}

std::vector<MicroBatch> read_batches(const data::Windows& windows, const CheckpointOptions& options,
                                     const std::string& text, std::int64_t wanted) {
    if (windows.count() < options.batch_size) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: {} windows of {} tokens, a batch needs {}", text,
                                windows.count(), options.seq_len, options.batch_size),
                    "give a longer text, or a smaller --batch-size or --seq-len");
    }
    const std::int64_t full = windows.count() / options.batch_size;
    std::vector<MicroBatch> batches;
    for (std::int64_t i = 0; i < std::min(full, wanted); ++i) {
        batches.push_back(to_tensors(windows.range(i * options.batch_size, options.batch_size)));
    }
    return batches;
}

at::Tensor mean_of(const ops::SummedLoss& part) {
    return part.sum.div(static_cast<double>(std::max<std::int64_t>(1, part.count)));
}

// What the run of a checkpoint was told: it stands in the run's folder, two levels above.
std::optional<Config> run_configuration(const fs::path& dir) {
    const fs::path file = fs::canonical(dir).parent_path().parent_path() / "config.resolved.toml";
    if (!fs::exists(dir / io::Manifest::kFileName) || !fs::exists(file)) return std::nullopt;
    return load_config(file.string()).config;
}

}  // namespace

PlannedCheckpoint::PlannedCheckpoint(const std::string& dir, const std::string& text,
                                     const CheckpointOptions& options)
    : options_((check(options), options)), model_(load_for_evaluation(dir, "bf16", "")) {
    const std::int64_t positions = model_.model->config().max_position;
    if (options_.seq_len > positions) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("plan: sequence length {}, the model ends at position {}",
                                options_.seq_len, positions),
                    "give a smaller --seq-len");
    }
    batches_ = read_batches(text_windows(dir, text, options_.seq_len), options_, text,
                            options_.measured_batches + std::max(options_.batches, kFillSteps));
    if (const std::string& other = options_.evaluation_text; !other.empty()) {
        evaluation_ = read_batches(text_windows(dir, other, options_.seq_len), options_, other,
                                   options_.batches);
    }
    measured_ = std::min(batches_.size(), static_cast<std::size_t>(options_.measured_batches));
    model_.precision->seed = options_.seed;
    const std::optional<Config> run = run_configuration(dir);
    nn::Precision& precision = *model_.precision;
    if (run) fix_layers(run->precision, precision);
    for (std::uint32_t l = 0; l < precision.table().size(); ++l) {
        const plan::LayerInfo& layer = precision.table()[l];
        for (const std::string& glob : options_.include) {
            if (!layer.candidate && glob_match(glob, layer.name)) precision.free_layer(l);
        }
    }
    if (fs::exists(fs::path(dir) / "optimizer.safetensors") &&
        fs::exists(fs::path(dir) / "trainer_state.json")) {
        restore_optimizer(run);
    }
}

optim::Optimizer& PlannedCheckpoint::filled_optimizer() {
    if (!optimizer_) fill_moments();
    return *optimizer_;
}

ModelLoss PlannedCheckpoint::loss() {
    return [this](const at::Tensor& ids, const at::Tensor& targets) {
        return model_.model->loss(ids, targets);
    };
}

void PlannedCheckpoint::restore_optimizer(const std::optional<Config>& run) {
    const fs::path dir = model_.dir;
    const Resume resume{dir.string(), io::read_json(dir / "trainer_state.json"), {}};
    Config config = run.value_or(Config{});
    if (!run) {
        const nlohmann::json& state = resume.trainer_state;
        const nlohmann::json numbers =
            state.is_object() ? state.value("optimizer", nlohmann::json{}) : nlohmann::json{};
        if (numbers.is_object() && numbers.contains("optimizer") &&
            numbers["optimizer"].is_string()) {
            config.optim.name = numbers["optimizer"].get<std::string>();
            config.optim.grad_clip = default_grad_clip(config.optim.name);
        }
        notes_.push_back(
            "the checkpoint's run folder is not there: optimizer settings are the defaults");
    }
    optimizer_ = set_up_optimizer(config, *model_.model);
    train::restore_optimizer(resume, *optimizer_);
}

// With a learning rate of 0 a step changes the moments and nothing else. Without moments the first
// update of AdamW is lr * sign(g): its derivative would say that gradients do not matter.
void PlannedCheckpoint::fill_moments() {
    const Config defaults;
    model_.precision->set_plan(plan::uniform_plan(table(), "bf16"));
    optimizer_ = set_up_optimizer(defaults, *model_.model);
    optimizer_->set_lr(0);
    const auto steps =
        std::min<std::int64_t>(kFillSteps, static_cast<std::int64_t>(batches_.size()));
    for (std::int64_t i = steps - 1; i >= 0; --i) {
        accumulate_gradients(loss(), {batches_[static_cast<std::size_t>(i)]}, *model_.precision);
        optimizer_->step();
        optimizer_->zero_grad();
    }
    optimizer_->set_lr(defaults.optim.lr);
    notes_.push_back(
        fmt::format("no optimizer state in the folder: moments of a new AdamW (lr {}) from {} "
                    "batches of the text",
                    defaults.optim.lr, steps));
}

snip::LossFunction PlannedCheckpoint::mean_loss(const at::Tensor& ids, const at::Tensor& targets) {
    return [this, ids, targets] { return mean_of(model_.model->loss(ids, targets)); };
}

snip::LossFunction PlannedCheckpoint::sampled_loss(const at::Tensor& ids, std::size_t batch) {
    NoiseAddress labels;
    labels.seed = options_.seed;
    labels.step = static_cast<std::uint32_t>(batch);
    labels.role = ops::kSampledLabelRole;
    return [this, ids, labels] { return mean_of(model_.model->sampled_loss(ids, labels)); };
}

snip::Measurement PlannedCheckpoint::measure() { return measure(options_.needs, options_.probes); }

snip::Measurement PlannedCheckpoint::measure(const plan::Needs& needs, snip::Probes probes) {
    return measure(needs, probes, plan::uniform_plan(table(), "bf16"));
}

snip::Measurement PlannedCheckpoint::measure_around(const plan::Plan& plan,
                                                    const plan::Needs& needs) {
    plan::Plan forward = plan;
    for (auto& [layer, recipes] : forward.layers) recipes[1] = recipes[2] = "bf16";
    return measure(options_.needs | needs, options_.probes, forward);
}

snip::Measurement PlannedCheckpoint::measure(const plan::Needs& needs, snip::Probes probes,
                                             const plan::Plan& plan) {
    snip::Measurement result;
    std::vector<plan::ModelStatistics> steps;
    for (std::size_t b = 0; b < measured_; ++b) {
        snip::Measurement one =
            measure_batch(b, needs, b == 0 ? probes : snip::Probes::kNone, plan);
        result.probe_passes += one.probe_passes;
        result.statistics_seconds += one.statistics_seconds;
        result.probe_seconds += one.probe_seconds;
        steps.push_back(std::move(one.statistics));
    }
    result.statistics = plan::average(steps);
    return result;
}

snip::Measurement PlannedCheckpoint::measure_batch(std::size_t index, const plan::Needs& needs,
                                                   snip::Probes probes, const plan::Plan& plan) {
    const MicroBatch& batch = batches_[index];
    optim::Optimizer& optimizer = filled_optimizer();
    nn::Precision& precision = *model_.precision;
    precision.set_plan(plan);
    const bool sampled = options_.sampled_labels && needs.outputs;
    plan::Needs listened = needs;
    listened.outputs = needs.outputs && !sampled;
    snip::StatisticsSink sink(precision.table(), options_.recipes, listened);
    precision.observer = &sink;
    AccumulatedLoss mean;
    try {
        mean = accumulate_gradients(loss(), {batch}, precision);
    } catch (...) {
        precision.observer = nullptr;
        throw;
    }
    precision.observer = nullptr;
    const std::int64_t rows = snip::probe_sequences(batch.ids.size(0), batch.ids.size(1));
    const at::Tensor ids = batch.ids.narrow(0, 0, rows);
    snip::Measurement result = snip::measure(
        sink, precision, nn::layer_weights(*model_.model, precision), optimizer,
        {.step = optimizer.steps() + optimizer.skipped(),
         .loss = mean.mean,
         .replay = probes == snip::Probes::kNone ? snip::LossFunction{}
                                                 : mean_loss(ids, batch.targets.narrow(0, 0, rows)),
         .probe = {.probes = probes,
                   .scale = options_.probe_scale,
                   .seed = options_.seed,
                   .curvature = needs.curvature},
         .sampled = sampled ? sampled_loss(ids, index) : snip::LossFunction{},
         .recipes = options_.recipes,
         .sampled_plan = plan});
    optimizer.zero_grad();
    plan::check_statistics(result.statistics);
    return result;
}

std::vector<MicroBatch> PlannedCheckpoint::evaluated_batches() const {
    if (!evaluation_.empty()) return evaluation_;
    if (batches_.size() == measured_) return batches_;
    const std::size_t end =
        std::min(batches_.size(), measured_ + static_cast<std::size_t>(options_.batches));
    return {batches_.begin() + static_cast<std::ptrdiff_t>(measured_),
            batches_.begin() + static_cast<std::ptrdiff_t>(end)};
}

AccumulatedLoss PlannedCheckpoint::evaluate(const plan::Plan& plan) {
    model_.precision->set_plan(plan);
    return train::evaluate(loss(), evaluated_batches(), *model_.precision);
}

AccumulatedLoss PlannedCheckpoint::evaluate_measured(const plan::Plan& plan) {
    model_.precision->set_plan(plan);
    const auto end = batches_.begin() + static_cast<std::ptrdiff_t>(measured_);
    return train::evaluate(loss(), {batches_.begin(), end}, *model_.precision);
}

snip::Realised PlannedCheckpoint::realised(const plan::Plan& plan,
                                           const plan::ModelStatistics& statistics,
                                           plan::LossEstimator estimator) {
    const std::vector<snip::LossFunction> batches{
        mean_loss(batches_.front().ids, batches_.front().targets)};
    const auto weights = nn::layer_weights(*model_.model, *model_.precision);
    return snip::realised({batches, *model_.precision, filled_optimizer(), weights}, plan,
                          statistics, estimator);
}

BruteForce PlannedCheckpoint::brute_force(const std::vector<std::string>& recipes) {
    std::vector<snip::LossFunction> batches[2];
    std::size_t count = 0;
    for (const MicroBatch& batch : evaluated_batches()) {
        batches[count++ % 2].push_back(mean_loss(batch.ids, batch.targets));
    }
    const auto weights = nn::layer_weights(*model_.model, *model_.precision);
    BruteForce result;
    for (int half = 0; half < 2; ++half) {
        if (batches[half].empty()) continue;
        result.halves[half] =
            snip::Oracle{batches[half], *model_.precision, filled_optimizer(), weights}.per_layer(
                recipes, /*keep_sign=*/true);
    }
    std::size_t candidates = 0;
    for (const plan::LayerInfo& layer : table()) candidates += layer.candidate;
    result.passes = static_cast<int>(count * (1 + candidates * recipes.size()));
    result.all = result.halves[0];
    for (std::size_t l = 0; l < result.all.size(); ++l) {
        for (std::size_t r = 0; r < recipes.size(); ++r) {
            double loss = 0, weight = 0;
            for (int half = 0; half < 2; ++half) {
                if (batches[half].empty()) continue;
                plan::Divergence& d = result.halves[half][l][r];
                const double share =
                    static_cast<double>(batches[half].size()) / static_cast<double>(count);
                loss += share * d.loss;
                weight += share * d.weight;
                d.loss = std::fabs(d.loss);
            }
            result.all[l][r] = {.loss = std::fabs(loss), .weight = weight};
        }
    }
    return result;
}

void model_costs(SolvedPlan& solved, const plan::LayerTable& table) {
    const plan::Plan& plan = solved.result.plan;
    solved.fp4_share = plan::fp4_share(plan, table);
    solved.bits = plan::effective_bits(plan, table);
    solved.speedup = plan::estimate_cost(plan, table).total.candidate_speedup();
}

std::vector<SolvedPlan> solve_plans(const plan::ModelStatistics& statistics,
                                    const SolveOptions& options) {
    std::vector<SolvedPlan> plans;
    for (const std::string& method : options.methods) {
        for (const double target : options.targets) {
            plan::PlannerOptions planner = options.planner;
            planner.method = method;
            planner.target = target;
            SolvedPlan solved;
            solved.result = plan::make_plan(statistics.table, statistics, planner);
            model_costs(solved, statistics.table);
            plans.push_back(std::move(solved));
        }
    }
    return plans;
}

nlohmann::ordered_json divergences_json(const plan::ModelStatistics& statistics,
                                        const std::vector<std::string>& recipes,
                                        plan::LossEstimator estimator) {
    const auto divergences = plan::estimate_divergence(statistics, recipes, estimator);
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (std::size_t l = 0; l < divergences.size(); ++l) {
        if (!statistics.table[l].candidate) continue;
        nlohmann::ordered_json row{{"name", statistics.table[l].name}};
        for (std::size_t r = 0; r < recipes.size(); ++r) {
            row[recipes[r]] = {{"loss", divergences[l][r].loss},
                               {"weight", divergences[l][r].weight}};
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

nlohmann::ordered_json to_json(const SolvedPlan& solved) {
    const plan::PlanResult& r = solved.result;
    nlohmann::ordered_json json{{"method", r.plan.method},
                                {"status", std::string(plan::status_name(r.status))},
                                {"efficiency", std::string(plan::efficiency_name(r.efficiency))},
                                {"target", r.target},
                                {"reached", r.reached},
                                {"relaxed", r.relaxed},
                                {"fp4_share", solved.fp4_share},
                                {"effective_bits", solved.bits},
                                {"candidate_speedup", solved.speedup},
                                {"predicted_loss", r.predicted_loss},
                                {"predicted_weight", r.predicted_weight},
                                {"predicted", r.predicted},
                                {"objective", r.objective},
                                {"gap", r.gap},
                                {"solve_seconds", r.seconds},
                                {"notes", r.notes},
                                {"plan", plan::to_json(r.plan)}};
    if (solved.improvement) {
        const Improvement& gained = *solved.improvement;
        json["measured_loss_solved"] = gained.start_loss;
        json["measured_loss"] = gained.loss;
        if (gained.start_unseen > 0) {
            json["unseen_damage_solved"] = gained.start_unseen;
            json["unseen_damage"] = gained.unseen;
        }
        json["remeasured"] = gained.remeasured;
        json["evaluations"] = gained.evaluations;
        json["accepted"] = gained.accepted;
    }
    if (solved.realised) {
        const snip::Realised& realised = *solved.realised;
        json["predicted_plan_loss"] = realised.predicted.loss;
        json["predicted_plan_weight"] = realised.predicted.weight;
        json["realised_loss"] = realised.real.loss;
        json["realised_weight"] = realised.real.weight;
        json["loss_factor"] = realised.loss_factor();
        json["weight_factor"] = realised.weight_factor();
    }
    for (const plan::PlanResult::Stage& stage : r.stages) {
        json["stages"].push_back(
            {{"work", stage.work}, {"target", stage.target}, {"reached", stage.reached}});
    }
    // Without a plan there is nothing that these numbers could be of.
    for (const char* number : {"reached", "fp4_share", "effective_bits", "candidate_speedup",
                               "predicted_loss", "predicted_weight", "predicted", "plan"}) {
        if (!r.usable()) json[number] = nullptr;
    }
    return json;
}

}  // namespace subbyte::train
