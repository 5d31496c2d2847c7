// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/snip.h"

#include <fmt/format.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "subbyte/core/clock.h"
#include "subbyte/core/error.h"
#include "subbyte/plan/stages.h"
#include "subbyte/snip/diverged.h"
#include "subbyte/snip/measure.h"
#include "subbyte/snip/parameter_index.h"

namespace subbyte {
namespace {

plan::PlanSchedule schedule_of(const SnipOptions& options) {
    plan::PlanSchedule schedule;
    schedule.target = options.schedule;
    schedule.initial_target = options.initial_target;
    schedule.target_increment = options.target_increment;
    schedule.max_target = std::max(options.max_target, options.initial_target);
    schedule.increment_every = options.increment_every;
    schedule.update_interval = options.update_interval;
    schedule.warmup_steps = options.warmup_steps;
    schedule.freeze_fraction = options.freeze_fraction;
    schedule.total_steps = options.total_steps;
    schedule.never = options.frozen;
    schedule.swap_delay =
        options.swap_delay > 0
            ? options.swap_delay
            : std::max<std::int64_t>(1, std::min<std::int64_t>(5, options.update_interval));
    schedule.check();
    return schedule;
}

plan::PlannerOptions planner_of(const SnipOptions& options, double target) {
    plan::PlannerOptions planner;
    planner.method = options.method;
    planner.recipes = options.recipes;
    planner.target = target;
    planner.efficiency = options.efficiency;
    planner.profile = options.profile;
    planner.granularity = options.granularity;
    planner.coupled = options.coupled;
    planner.loss_weight = options.loss_weight;
    planner.weight_weight = options.weight_weight;
    planner.estimator = options.estimator;
    planner.squared = options.squared;
    planner.seed = options.seed;
    planner.limits.seconds = options.solve_seconds;
    return planner;
}

plan::Needs needs_of(const SnipOptions& options) {
    plan::Needs needs = plan::needs_of(options.method, options.estimator);
    if (options.sampled_labels) needs.outputs = false;  // measured apart
    return needs;
}

void check(const SnipOptions& options) {
    const auto& methods = plan::planner_methods();
    if (std::find(methods.begin(), methods.end(), options.method) == methods.end()) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("SNIP: there is no planning method '{}'", options.method));
    }
    if (!(options.hysteresis >= 0 && options.hysteresis < 1)) {
        throw Error(ErrorCode::kUsage, fmt::format("SNIP: hysteresis {}", options.hysteresis),
                    "the hysteresis is 0 (none) or more and below 1");
    }
    if (!(options.damage_bound >= 0)) {
        throw Error(ErrorCode::kUsage, fmt::format("SNIP: damage_bound {}", options.damage_bound),
                    "the bound of the predicted damage is 0 or more");
    }
    if (options.sampled_labels && !plan::needs_of(options.method, options.estimator).outputs) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("SNIP: method {} with estimator {} has no use for sampled labels",
                                options.method, plan::estimator_name(options.estimator)),
                    "fisher, gradient-output and taylor weigh output errors by gradients");
    }
    if (options.schedule == plan::TargetSchedule::kQualityHeld && options.control.adjust.step > 0) {
        throw Error(ErrorCode::kUsage,
                    "SNIP: loss adjustment moves a target, and a quality-held run has none",
                    "use one of the two");
    }
}

// Whether something can be said of a plan: its recipes are measured, and not all are `high`.
bool is_predictable(const plan::Plan& plan, const plan::LayerTable& table,
                    const SnipOptions& options) {
    bool low = false;
    for (const plan::LayerInfo& layer : table) {
        for (const plan::Slot slot : plan::kSlots) {
            const std::string& recipe = plan.recipe(layer.name, slot);
            if (!layer.candidate || plan::find_recipe(recipe).is_high_precision()) continue;
            const bool measured =
                !layer.plans(slot) || std::ranges::count(options.recipes, recipe) > 0;
            if (!measured) return false;
            low = true;
        }
    }
    return low;
}

nlohmann::json realised_json(const snip::Realised& realised) {
    return {realised.predicted.loss, realised.predicted.weight, realised.real.loss,
            realised.real.weight};
}

nlohmann::json stages_json(const std::vector<plan::PlanResult::Stage>& stages) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& stage : stages) list.push_back({stage.work, stage.target, stage.reached});
    return list;
}

}  // namespace

SNIP::SNIP(torch::nn::Module& model, optim::Optimizer& optimizer, SnipOptions options)
    : optimizer_(optimizer),
      options_(std::move(options)),
      schedule_(schedule_of(options_)),
      precision_(nn::attach_precision(model, options_.keep_high, options_.high)),
      weights_(nn::layer_weights(model, *precision_)),
      sink_(precision_->table(), options_.recipes, needs_of(options_)),
      noise_sink_(*precision_, sink_),
      control_(options_.control, options_.recipes, options_.high, options_.warmup_steps,
               options_.total_steps) {
    check(options_);
    plan::LayerTable staged = precision_->table();
    plan::assign_stages(staged, options_.stages);  // now, not in the middle of the run
    snip::parameter_indices(optimizer, weights_);  // all layers must be trained by it
    precision_->seed = options_.seed;
    planned_ = plan::uniform_plan(precision_->table(), options_.high);
    precision_->set_plan(planned_);
    self_ = std::make_shared<SNIP*>(this);
    optimizer_.add_step_hook([self = self_](const optim::StepResult& result) {
        if (*self != nullptr) (*self)->end_step(result);
    });
    begin_step(optimizer_.steps(), optimizer_.steps() + optimizer_.skipped());
}

SNIP::~SNIP() {
    *self_ = nullptr;
    if (precision_->observer == &sink_ || precision_->observer == &noise_sink_) {
        precision_->observer = nullptr;
    }
}

double SNIP::fp4_share() const { return plan::fp4_share(precision_->plan(), precision_->table()); }

void SNIP::start_with(const plan::Plan& plan, bool keep) {
    precision_->set_plan(plan);
    planned_ = precision_->plan();
    keep_planned_ = keep;
    damage_.clear();
    enforce();
}

void SNIP::end_step(const optim::StepResult& result) {
    // A skipped step did not happen: what was measured in it goes, and the step is measured again.
    const bool measured_now = in_flight_ && in_flight_->swap_step == step_ + schedule_.swap_delay;
    if (!result.applied && measured_now) in_flight_.reset();
    const std::int64_t next = optimizer_.steps(), iteration = next + optimizer_.skipped();
    if (result.applied) {
        std::vector<ControlEvent> events;
        const auto add = [&](std::vector<ControlEvent> more) {
            for (ControlEvent& event : more) {
                event.step = iteration;
                events.push_back(std::move(event));
            }
        };
        add(control_.noise.observe(noise_, plan(), control_.ladder()));
        if (step_ >= schedule_.warmup_steps && loss_) add(control_.adjust.end_step(*loss_));
        add(control_.spike.end_step(next, loss_.value_or(NAN), result.grad_norm, plan(),
                                    precision_->table(), damage_));
        tell(events);
    }
    noise_.clear();
    loss_.reset();
    begin_step(next, iteration);
}

void SNIP::begin_step(std::int64_t step, std::int64_t iteration) {
    step_ = step;
    iteration_ = iteration;
    precision_->step = static_cast<std::uint32_t>(iteration);
    precision_->micro_batch = 0;
    if (in_flight_ && step >= in_flight_->swap_step) {
        InFlight in_flight = std::move(*in_flight_);
        in_flight_.reset();
        swap_in(std::move(in_flight));
    }
    enforce();
    ops::LinearObserver* listening = &sink_;
    if (control_.noise.active()) listening = &noise_sink_;
    sink_active_ = schedule_.collects_at(step) && !in_flight_;
    if (sink_active_) {
        sink_.reset();
        noise_sink_.reset();
        precision_->observer = listening;
    } else if (precision_->observer == listening) {
        precision_->observer = nullptr;
    }
}

void SNIP::swap_in(InFlight in_flight) {
    finish_solve(in_flight);
    SnipEvent& event = in_flight.event;
    event.effective_at = iteration_;
    event.applied = event.result.usable() && !event.kept;
    if (event.applied) {
        precision_->set_plan(event.result.plan);
        event.changed_slots =
            plan::changed_slots(planned_, precision_->plan(), precision_->table());
        planned_ = precision_->plan();
    }
    if (event.result.usable()) damage_ = std::move(in_flight.damage);
    if (listener_) listener_(event);
}

void SNIP::enforce() {
    if (!control_.active()) return;
    std::vector<ControlEvent> events;
    const plan::Plan wanted =
        control_.in_force(step_, iteration_, precision_->table(), planned_, damage_, events);
    if (wanted != plan()) precision_->set_plan(wanted);
    tell(events);
}

void SNIP::tell(const std::vector<ControlEvent>& events) {
    if (!control_listener_) return;
    for (const ControlEvent& event : events) control_listener_(event);
}

void SNIP::collect_stats(const SnipInput& input) {
    if (!sink_active_) {
        throw Error(
            ErrorCode::kUsage, fmt::format("SNIP: no statistics were recorded in step {}", step_),
            "call collect_stats() only when due(): every update_interval steps, once per step, "
            "between backward and optimizer.step()");
    }
    precision_->observer = nullptr;
    sink_active_ = false;
    if (input.loss != 0) loss_ = input.loss;
    if (!std::isfinite(input.loss)) {
        throw snip::diverged(iteration_, input.loss, precision_->table(), sink_.statistics());
    }
    if (options_.sampled_labels && !input.sampled) {
        throw Error(ErrorCode::kUsage, "SNIP: there is no loss of sampled labels",
                    "give SnipInput::sampled");
    }
    InFlight in_flight;
    in_flight.swap_step = step_ + schedule_.swap_delay;
    SnipEvent& event = in_flight.event;
    event.measured_at = iteration_;
    const Stopwatch noise_watch;
    if (control_.noise.active()) noise_ = noise_sink_.result(weights_);
    event.statistics_seconds = noise_sink_.seconds() + noise_watch.seconds();
    noise_sink_.reset();
    const bool curvature = plan::needs_of(options_.method, options_.estimator).curvature;
    // The other methods do not look at gains.
    const bool probed = input.replay && (options_.method == "snip" || curvature);
    std::optional<plan::Plan> in_force;
    if (is_predictable(plan(), precision_->table(), options_)) in_force = plan();
    const snip::Measurement measurement =
        snip::measure(sink_, *precision_, weights_, optimizer_,
                      {.step = iteration_,
                       .loss = input.loss,
                       .replay = probed ? input.replay : snip::LossFunction{},
                       .probe = {options_.probes, options_.probe_scale,
                                 options_.seed + static_cast<std::uint64_t>(step_), curvature,
                                 std::move(in_force)},
                       .sampled = options_.sampled_labels ? input.sampled : snip::LossFunction{},
                       .recipes = options_.recipes,
                       .high = options_.high,
                       .estimator = options_.estimator});
    statistics_ = measurement.statistics;
    plan::assign_stages(statistics_.table, options_.stages);
    event.probe_passes = measurement.probe_passes;
    event.in_force = measurement.in_force;
    event.statistics_seconds += measurement.statistics_seconds;
    event.probe_seconds = measurement.probe_seconds;
    sink_.reset();
    snip::ReplanTask task;
    task.statistics = statistics_;
    task.planner = planner_of(
        options_, control_.adjust.adjusted(schedule_.target_at(step_), schedule_.max_target));
    if (options_.schedule == plan::TargetSchedule::kQualityHeld) {
        task.damage_bound = options_.damage_bound;
    }
    task.hysteresis = options_.hysteresis;
    task.in_force = planned_;
    task.planner.start = planned_;
    in_flight.solve =
        std::async(std::launch::async, [task = std::move(task), make_plan = options_.planner] {
            const Stopwatch watch;
            snip::ReplanResult decision = snip::replan(task, make_plan);
            decision.result.seconds = watch.seconds();
            return decision;
        });
    in_flight_ = std::move(in_flight);
}

void SNIP::finish_solve(InFlight& in_flight) {
    if (!in_flight.solve.valid()) return;
    const Stopwatch watch;
    SnipEvent& event = in_flight.event;
    try {
        snip::ReplanResult decision = in_flight.solve.get();
        event.result = std::move(decision.result);
        event.kept = decision.keep && event.result.usable();
        event.cost = decision.cost;
        event.cost_in_force = decision.cost_in_force;
        in_flight.damage = std::move(decision.damage);
    } catch (const Error& error) {
        // Numbers that cannot be planned with (a diverging step): the plan in force stays.
        if (error.code() != ErrorCode::kDiverged) throw;
        event.result.status = plan::SelectionStatus::kNoSolution;
        event.result.notes.push_back(error.what());
    }
    event.wait_seconds = watch.seconds();
    event.solve_seconds = event.result.seconds;
}

void SNIP::roll_back(const nlohmann::json& state) {
    const snip::SpikeGuard before = control_.spike;
    const std::int64_t from = iteration_;
    load_state(state);
    control_.spike.roll_back(before);
    tell({{.step = iteration_,
           .control = "spike-guard",
           .action = "roll-back",
           .reason = fmt::format("{}; back from step {} to the checkpoint of step {}",
                                 before.last_spike(), from, iteration_)}});
    enforce();
}

void SNIP::decline_roll_back(const std::string& reason) {
    control_.spike.decline();
    tell({{.step = iteration_,
           .control = "spike-guard",
           .action = "no-roll-back",
           .reason = reason}});
}

nlohmann::json SNIP::state() {
    nlohmann::json json{
        {"step", step_}, {"iteration", iteration_}, {"plan", plan::to_json(plan())}};
    if (control_.active()) {
        json["planned"] = plan::to_json(planned_);
        json["damage"] = damage_;
        json["control"] = control_.state();
    }
    if (in_flight_) {
        finish_solve(*in_flight_);
        const SnipEvent& event = in_flight_->event;
        const plan::PlanResult& r = event.result;
        json["in_flight"] = {{"swap_step", in_flight_->swap_step},
                             {"measured_at", event.measured_at},
                             {"status", std::string(plan::status_name(r.status))},
                             {"gap", r.gap},
                             {"objective", r.objective},
                             {"probe_passes", event.probe_passes},
                             {"kept", event.kept},
                             {"cost", {event.cost, event.cost_in_force}},
                             {"damage", in_flight_->damage},
                             {"plan", plan::to_json(r.plan)},
                             {"target", r.target},
                             {"reached", r.reached},
                             {"stages", stages_json(r.stages)},
                             {"relaxed", r.relaxed},
                             {"predicted", {r.predicted_loss, r.predicted_weight, r.predicted}},
                             {"notes", r.notes}};
        if (event.in_force) json["in_flight"]["in_force"] = realised_json(*event.in_force);
    }
    return json;
}

void SNIP::load_state(const nlohmann::json& state) {
    try {
        const plan::Plan plan = plan::plan_from_json(state.at("plan"), &precision_->table());
        std::optional<InFlight> in_flight;
        if (state.contains("in_flight")) {
            const nlohmann::json& saved = state.at("in_flight");
            in_flight = InFlight{};
            in_flight->swap_step = saved.at("swap_step").get<std::int64_t>();
            SnipEvent& event = in_flight->event;
            event.measured_at = saved.at("measured_at").get<std::int64_t>();
            plan::PlanResult& r = event.result;
            r.plan = plan::plan_from_json(saved.at("plan"), &precision_->table());
            if (saved.contains("status")) {
                r.status = plan::status_from_name(saved.at("status").get<std::string>());
                r.gap = saved.at("gap").get<double>();
                r.objective = saved.at("objective").get<double>();
                event.probe_passes = saved.at("probe_passes").get<int>();
            } else {  // an older checkpoint: whether the plan was proven is not known
                r.status = saved.at("usable").get<bool>() ? plan::SelectionStatus::kFeasible
                                                          : plan::SelectionStatus::kNoSolution;
            }
            r.efficiency = options_.efficiency;
            r.target = saved.at("target").get<double>();
            r.reached = saved.at("reached").get<double>();
            r.relaxed = saved.at("relaxed").get<bool>();
            r.predicted_loss = saved.at("predicted").at(0).get<double>();
            r.predicted_weight = saved.at("predicted").at(1).get<double>();
            r.predicted = saved.at("predicted").at(2).get<double>();
            r.notes = saved.at("notes").get<std::vector<std::string>>();
            if (saved.contains("stages")) {
                for (const nlohmann::json& stage : saved.at("stages")) {
                    r.stages.push_back({stage.at(0).get<double>(), stage.at(1).get<double>(),
                                        stage.at(2).get<double>()});
                }
            }
            if (saved.contains("in_force")) {
                const nlohmann::json& numbers = saved.at("in_force");
                event.in_force = snip::Realised{
                    .predicted = {numbers.at(0).get<double>(), numbers.at(1).get<double>()},
                    .real = {numbers.at(2).get<double>(), numbers.at(3).get<double>()}};
            }
            if (saved.contains("kept")) {  // not in checkpoints of version 0.1
                event.kept = saved.at("kept").get<bool>();
                event.cost = saved.at("cost").at(0).get<double>();
                event.cost_in_force = saved.at("cost").at(1).get<double>();
                in_flight->damage = saved.at("damage").get<std::vector<double>>();
            }
        }
        const auto step = state.at("step").get<std::int64_t>();
        const auto iteration = state.at("iteration").get<std::int64_t>();
        // A run without guards saves the plan alone; one that had them may go on without.
        plan::Plan planned = plan;
        damage_.clear();
        if (state.contains("planned")) {
            planned = plan::plan_from_json(state.at("planned"), &precision_->table());
            damage_ = state.at("damage").get<std::vector<double>>();
            control_.load_state(state.at("control"));
        }
        if (keep_planned_) planned = planned_;
        if (options_.frozen) in_flight.reset();
        precision_->set_plan(planned);  // begin_step() lets the guards raise it
        planned_ = precision_->plan();
        in_flight_ = std::move(in_flight);
        begin_step(step, iteration);
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorCode::kData, fmt::format("SNIP state: {}", error.what()));
    }
}

}  // namespace subbyte
