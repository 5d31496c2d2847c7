// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/trainer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "subbyte/core/clock.h"
#include "subbyte/core/error.h"
#include "subbyte/models/llama.h"
#include "subbyte/nn/init.h"
#include "subbyte/ops/block_cache.h"
#include "subbyte/ops/noise_role.h"
#include "subbyte/optim/lr_schedule.h"
#include "subbyte/train/config_model.h"
#include "subbyte/train/config_rules.h"
#include "subbyte/train/gradient_step.h"
#include "subbyte/train/memory_plan.h"
#include "subbyte/train/model_folder.h"
#include "subbyte/train/optimizer_setup.h"
#include "subbyte/train/precision_setup.h"
#include "subbyte/train/run_folder.h"
#include "subbyte/train/run_report.h"
#include "subbyte/train/training_data.h"

namespace subbyte::train {
namespace {

models::Llama build_model(const Config& config, std::int64_t vocabulary) {
    if (!config.model.path.empty()) return load_model(config.model.path);
    models::Llama model(model_config(config, vocabulary));
    nn::initialize(*model, static_cast<std::uint64_t>(config.run.seed));
    return model;
}

void check_fit(const Config& config, const models::LlamaConfig& model, std::int64_t vocabulary) {
    if (vocabulary > model.vocab_size) {
        throw Error(
            ErrorCode::kUsage,
            fmt::format("the tokenizer has {} pieces, the model's vocabulary {}", vocabulary,
                        model.vocab_size),
            "set model.vocab_size = 0 to take the tokenizer's, or use the model's own tokenizer");
    }
    if (config.train.seq_len > model.max_position) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("train.seq_len is {}, the model ends at position {}",
                                config.train.seq_len, model.max_position),
                    "lower train.seq_len or raise model.max_position");
    }
}

int thread_count(const Config& config) {
    if (config.run.threads > 0) at::set_num_threads(static_cast<int>(config.run.threads));
    return at::get_num_threads();
}

}  // namespace

class Trainer::Impl {
public:
    Impl(const Config& config, Listener& listener)
        : config_(config),
          listener_(listener),
          threads_(thread_count(config)),
          folder_(config),
          data_(config),
          model_(build_model(config, data_.vocab_size())),
          optimizer_(set_up_optimizer(config, *model_)),
          schedule_(lr_schedule_of(config)),
          setup_(set_up_precision(config, *model_, *optimizer_)) {
        check_fit(config_, model_->config(), data_.vocab_size());
        model_->recompute_blocks = config.train.recompute;
        setup_.precision->kept = ops::keep_of(config.train.activations);
        resume();
        if (setup_.snip) {
            setup_.snip->on_plan([this](const SnipEvent& event) { note_plan(event); });
            setup_.snip->on_control([this](const ControlEvent& event) { note_control(event); });
        }
    }

    RunStart describe();
    void tell_start() { listener_.on_start(describe()); }
    RunEnd run(const std::atomic<bool>& stop);

private:
    ops::SummedLoss loss(const at::Tensor& ids, const at::Tensor& targets) {
        return model_->loss(ids, targets);
    }
    ModelLoss model_loss() {
        return
            [this](const at::Tensor& ids, const at::Tensor& targets) { return loss(ids, targets); };
    }
    std::int64_t iteration() const { return optimizer_->steps() + optimizer_->skipped(); }

    void resume();
    void restore(const Resume& found);
    bool roll_back();
    void take_up_schedule(const nlohmann::json& saved, bool finished);
    bool step();  // false: the run went back to an earlier step
    void collect_statistics(const std::vector<MicroBatch>& batches, double mean_loss);
    void validate();
    void save();
    void note_plan(const SnipEvent& event);
    void note_control(const ControlEvent& event);
    std::optional<MeasuringShape> measuring_shape() const;

    const Config config_;
    Listener& listener_;
    int threads_;
    RunFolder folder_;
    TrainingData data_;
    models::Llama model_;
    std::unique_ptr<optim::Optimizer> optimizer_;
    optim::LrSchedule schedule_;
    PrecisionSetup setup_;
    std::int64_t first_step_ = 0;
    std::int64_t last_saved_ = -1;
    std::int64_t tokens_ = 0;
    std::int64_t consecutive_skips_ = 0;
    RunEnd end_;
};

// Takes up the checkpoint that the run folder offers.
void Trainer::Impl::resume() {
    const std::optional<Resume> found = folder_.find_resume(
        config_, [this](const std::string& message) { listener_.on_message(message); });
    if (!found) return;
    restore(*found);
    first_step_ = iteration();
    if (setup_.snip) {
        nlohmann::json precision = found->precision;
        // After a run in fixed precision the controller begins here, with that plan in force.
        precision.emplace("step", optimizer_->steps());
        precision.emplace("iteration", first_step_);
        setup_.snip->load_state(precision);
    }
    if (folder_.holds(found->dir)) last_saved_ = first_step_;
    listener_.on_message(fmt::format("resumed from {} at step {}", found->dir, first_step_));
}

// Everything but the precision.
void Trainer::Impl::restore(const Resume& found) {
    restore_parameters(found, *model_);
    restore_optimizer(found, *optimizer_);
    const nlohmann::json& state = found.trainer_state;
    try {
        data_.set_position(state.at("data"));
        tokens_ = state.at("tokens").get<std::int64_t>();
        consecutive_skips_ = state.at("consecutive_skips").get<std::int64_t>();
        end_.plans = state.at("plans").get<int>();
        end_.changed_slots = state.at("changed_slots").get<int>();
        end_.decisions = state.value("decisions", 0);  // not in checkpoints of version 0.1
        take_up_schedule(state.at("schedule"), iteration() >= config_.train.steps);
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}/trainer_state.json: {}", found.dir, error.what()));
    }
}

// Goes back to the last checkpoint that checkpoint.every made before this step; others, such as the
// one of an interruption, would make the run depend on when it was interrupted.
bool Trainer::Impl::roll_back() {
    const std::int64_t from = iteration(), every = config_.checkpoint.every;
    const std::int64_t step = every > 0 ? (from - 1) / every * every : 0;
    const std::optional<Resume> found = step > 0 ? folder_.find_step(step) : std::nullopt;
    if (!found) {
        setup_.snip->decline_roll_back(
            fmt::format("there is no checkpoint of a regular step before step {}", from));
        return false;
    }
    folder_.take_back_to(step);
    restore(*found);
    setup_.snip->roll_back(found->precision);
    last_saved_ = step;
    return true;
}

// The curve of the run goes on as it was planned, unless optim.schedule_steps asks for another one.
void Trainer::Impl::take_up_schedule(const nlohmann::json& saved, bool finished) {
    const optim::LrSchedule old = optim::LrSchedule::from_json(saved);
    if (old == schedule_) return;
    const std::int64_t at = optimizer_->steps();
    const bool asked = config_.optim.schedule_steps > 0;
    if (!finished) {
        listener_.on_message(fmt::format(
            "learning rate: the run was planned as {}; the configuration now says {}; at step {} "
            "that is "
            "{:.3e} against {:.3e}; {}",
            old.describe(), schedule_.describe(), at, old.lr_at(at), schedule_.lr_at(at),
            asked ? "taking the new curve, because optim.schedule_steps is given"
                  : "keeping the old curve (give optim.schedule_steps to change it)"));
    }
    if (!asked) schedule_ = old;
}

bool Trainer::Impl::step() {
    const Stopwatch watch;
    setup_.precision->step = static_cast<std::uint32_t>(iteration());
    const std::vector<MicroBatch> batches = data_.next_step();
    optimizer_->zero_grad();
    const double lr = schedule_.lr_at(optimizer_->steps());
    const bool measure = setup_.snip && setup_.snip->due();
    AccumulatedLoss loss;
    optim::StepResult result;
    if (config_.optim.in_backward && !measure) {  // a measurement needs all gradients at once
        optimizer_->set_lr(lr);
        loss = accumulate_gradients(model_loss(), batches, *setup_.precision,
                                    [this] { optimizer_->start_step_in_backward(); });
        if (setup_.snip) setup_.snip->note_loss(loss.mean);
        result = optimizer_->finish_step_in_backward();
    } else {
        loss = accumulate_gradients(model_loss(), batches, *setup_.precision);
        if (measure) collect_statistics(batches, loss.mean);
        if (setup_.snip) setup_.snip->note_loss(loss.mean);
        optimizer_->set_lr(lr);
        result = optimizer_->step();
    }
    optimizer_->zero_grad();
    consecutive_skips_ = result.applied ? 0 : consecutive_skips_ + 1;
    tokens_ += loss.targets;
    const double seconds = watch.seconds();
    end_.train_seconds += seconds;
    ++end_.steps_run;
    end_.loss = loss.mean;

    StepRecord record;
    record.step = iteration();
    record.total = config_.train.steps;
    record.loss = loss.mean;
    record.grad_norm = result.grad_norm;
    record.lr = lr;
    record.seconds = seconds;
    record.tokens_per_second = static_cast<double>(loss.targets) / seconds;
    record.eta_seconds = end_.train_seconds / static_cast<double>(end_.steps_run) *
                         static_cast<double>(config_.train.steps - iteration());
    record.fp4_share = plan::fp4_share(setup_.precision->plan(), setup_.precision->table());
    record.bits = plan::effective_bits(setup_.precision->plan(), setup_.precision->table());
    record.skipped = optimizer_->skipped();
    record.applied = result.applied;
    folder_.log(record);
    listener_.on_step(record);
    if (consecutive_skips_ >= config_.train.max_nonfinite) {
        throw Error(
            ErrorCode::kDiverged,
            fmt::format("step {}: the gradient was not finite in {} steps in a row (first in {}); "
                        "loss {}",
                        iteration(), consecutive_skips_, result.nonfinite, loss.mean),
            "lower optim.lr, lengthen optim.warmup_steps, or take a higher precision; the last "
            "checkpoint is kept");
    }
    return !(setup_.snip && setup_.snip->wants_roll_back() && roll_back());
}

void Trainer::Impl::collect_statistics(const std::vector<MicroBatch>& batches, double mean_loss) {
    const MicroBatch& first = batches.front();
    const std::int64_t rows = snip::probe_sequences(first.ids.size(0), first.ids.size(1));
    const MicroBatch probe{first.ids.narrow(0, 0, rows), first.targets.narrow(0, 0, rows)};
    const auto mean = [](const ops::SummedLoss& part) {
        return part.sum.div(static_cast<double>(std::max<std::int64_t>(1, part.count)));
    };
    NoiseAddress labels;
    labels.seed = setup_.precision->seed;
    labels.step = setup_.precision->step;
    labels.role = ops::kSampledLabelRole;
    ops::release_freed_memory();  // what the step freed is of other sizes than the passes need
    setup_.snip->collect_stats(
        {.loss = mean_loss,
         .replay = [&] { return mean(loss(probe.ids, probe.targets)); },
         .sampled = [&] { return mean(model_->sampled_loss(probe.ids, labels)); }});
    folder_.log_statistics(setup_.snip->statistics());
    ops::release_freed_memory();
}

void Trainer::Impl::note_plan(const SnipEvent& event) {
    ++end_.plans;
    ++end_.measurements;
    end_.changed_slots += event.changed_slots;
    end_.statistics_seconds += event.statistics_seconds;
    end_.probe_seconds += event.probe_seconds;
    end_.wait_seconds += event.wait_seconds;
    end_.solve_seconds += event.solve_seconds;
    folder_.log(event, setup_.precision->table());
    listener_.on_plan(event, setup_.precision->table());
}

void Trainer::Impl::note_control(const ControlEvent& event) {
    ++end_.decisions;
    folder_.log(event);
    listener_.on_control(event);
}

void Trainer::Impl::validate() {
    if (data_.validation().empty()) return;
    const Stopwatch watch;
    const AccumulatedLoss loss = evaluate(model_loss(), data_.validation(), *setup_.precision);
    EvalRecord record;
    record.step = iteration();
    record.targets = loss.targets;
    record.loss = loss.mean;
    record.perplexity = std::exp(loss.mean);
    record.seconds = watch.seconds();
    end_.validation_loss = loss.mean;
    end_.evaluation_seconds += record.seconds;
    folder_.log(record);
    listener_.on_eval(record);
}

void Trainer::Impl::save() {
    if (last_saved_ == iteration()) return;
    const nlohmann::json state{{"step", iteration()},
                               {"tokens", tokens_},
                               {"consecutive_skips", consecutive_skips_},
                               {"data", data_.position()},
                               {"schedule", schedule_.to_json()},
                               {"plans", end_.plans},
                               {"changed_slots", end_.changed_slots},
                               {"decisions", end_.decisions}};
    const nlohmann::json precision =
        setup_.snip ? setup_.snip->state()
                    : nlohmann::json{{"plan", plan::to_json(setup_.precision->plan())}};
    const std::string dir = folder_.save(
        {iteration(), *model_, data_.tokenizer().get(), *optimizer_, precision, state});
    last_saved_ = iteration();
    listener_.on_checkpoint(iteration(), dir);
}

// What the measuring steps of this run will do; none when it never measures.
std::optional<MeasuringShape> Trainer::Impl::measuring_shape() const {
    const Config::Precision& precision = config_.precision;
    if (!setup_.snip || precision.freeze_plan) return std::nullopt;
    const plan::Needs needs =
        plan::needs_of(precision.snip.method, plan::estimator_from_name(precision.snip.estimator));
    const std::int64_t rows =
        snip::probe_sequences(config_.train.batch_size / config_.train.grad_accum,
                              config_.train.seq_len) *
        config_.train.seq_len;
    const bool probed =
        precision.snip.probes != "none" && (precision.snip.method == "snip" || needs.curvature);
    return MeasuringShape{.probe_rows = probed ? rows : 0,
                          .drawn_rows = precision.snip.labels == "sampled" ? rows : 0,
                          .keeps_inputs = needs.first_order,
                          .noise_guard = precision.control.noise_ratio > 0};
}

RunStart Trainer::Impl::describe() {
    const std::vector<std::string> recipes = recipes_in_use(config_, *setup_.precision);
    RunStart start = describe_start(config_, *model_, *optimizer_, *setup_.precision, threads_);
    start.run_dir = folder_.dir();
    start.tokenizer = fmt::format("{} pieces", data_.vocab_size());
    start.schedule = schedule_.describe();
    start.kernels = kernel_lines(recipes);
    start.rules = rule_lines(config_.precision, setup_.precision->table());
    start.train_tokens = data_.train_tokens();
    start.validation_tokens = data_.validation_tokens();
    start.first_step = first_step_;

    double states = start.state_bytes;
    for (const auto& [name, tensor] : optimizer_->state_tensors()) {
        states -= static_cast<double>(tensor.nbytes());
    }
    const MemoryPlan memory = plan_memory(
        model_->config(), *setup_.precision,
        {.rows = config_.train.batch_size / config_.train.grad_accum * config_.train.seq_len,
         .recompute = config_.train.recompute,
         .in_backward = config_.optim.in_backward,
         .states = std::max(0.0, states),
         .measuring = measuring_shape()});
    start.packed_bytes = memory.packed_weights;
    start.activation_bytes = memory.activations;
    start.head_bytes = memory.head;
    start.planned_peak_bytes = memory.peak();
    return start;
}

RunEnd Trainer::Impl::run(const std::atomic<bool>& stop) {
    const RunStart start = describe();
    if (first_step_ >= config_.train.steps) {
        listener_.on_message(fmt::format("nothing to do: the run is at step {}, train.steps is {}",
                                         first_step_, config_.train.steps));
        end_.step = first_step_;
        return end_;
    }
    folder_.open(config_, first_step_);
    folder_.log(start);
    listener_.on_start(start);
    reset_kernel_counts();
    while (iteration() < config_.train.steps && !stop.load()) {
        if (!step()) continue;
        const bool last = iteration() == config_.train.steps;
        const std::int64_t every = config_.train.eval_every;
        if (every > 0 && (last || iteration() % every == 0)) validate();
        if (last || (config_.checkpoint.every > 0 && iteration() % config_.checkpoint.every == 0))
            save();
    }
    end_.step = iteration();
    end_.interrupted = iteration() < config_.train.steps;
    if (end_.interrupted) save();
    end_.kernels = kernel_counts();
    end_.peak_memory_bytes = peak_memory_bytes();
    end_.planned_peak_bytes = start.planned_peak_bytes;
    folder_.log(end_, setup_.precision->plan(), setup_.precision->table());
    listener_.on_end(end_);
    return end_;
}

Trainer::Trainer(const Config& config, Listener& listener)
    : impl_(std::make_unique<Impl>(config, listener)) {}
Trainer::~Trainer() = default;
void Trainer::dry_run() { impl_->tell_start(); }
RunEnd Trainer::run(const std::atomic<bool>& stop) { return impl_->run(stop); }

}  // namespace subbyte::train
