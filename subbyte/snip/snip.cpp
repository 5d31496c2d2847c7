// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/snip.h"

#include <fmt/format.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "subbyte/core/clock.h"
#include "subbyte/core/error.h"
#include "subbyte/snip/measure.h"
#include "subbyte/snip/parameter_index.h"

namespace subbyte {
namespace {

plan::PlanSchedule schedule_of(const SnipOptions& options) {
    plan::PlanSchedule schedule;
    schedule.initial_target = options.initial_target;
    schedule.target_increment = options.target_increment;
    schedule.max_target = std::max(options.max_target, options.initial_target);
    schedule.increment_every = options.increment_every;
    schedule.update_interval = options.update_interval;
    schedule.warmup_steps = options.warmup_steps;
    schedule.freeze_fraction = options.freeze_fraction;
    schedule.total_steps = options.total_steps;
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
    planner.loss_weight = options.loss_weight;
    planner.weight_weight = options.weight_weight;
    planner.estimator = options.estimator;
    planner.squared = options.squared;
    planner.seed = options.seed;
    planner.limits.seconds = options.solve_seconds;
    return planner;
}

}  // namespace

SNIP::SNIP(torch::nn::Module& model, optim::Optimizer& optimizer, SnipOptions options)
    : optimizer_(optimizer),
      options_(std::move(options)),
      schedule_(schedule_of(options_)),
      precision_(nn::attach_precision(model, options_.keep_high, options_.high)),
      weights_(nn::layer_weights(model, *precision_)),
      sink_(precision_->table().size(), options_.recipes,
            options_.estimator == plan::LossEstimator::kFirstOrder) {
    const auto& methods = plan::planner_methods();
    if (std::find(methods.begin(), methods.end(), options_.method) == methods.end()) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("SNIP: there is no planning method '{}'", options_.method));
    }
    snip::parameter_indices(optimizer, weights_);  // all layers must be trained by it
    precision_->seed = options_.seed;
    plan::Plan start = plan::uniform_plan(precision_->table(), options_.high);
    precision_->set_plan(start);
    self_ = std::make_shared<SNIP*>(this);
    optimizer_.add_step_hook([self = self_](const optim::StepResult& result) {
        if (*self != nullptr) (*self)->end_step(result);
    });
    begin_step(optimizer_.steps(), optimizer_.steps() + optimizer_.skipped());
}

SNIP::~SNIP() {
    *self_ = nullptr;
    if (precision_->observer == &sink_) precision_->observer = nullptr;
}

double SNIP::fp4_share() const { return plan::fp4_share(precision_->plan(), precision_->table()); }

void SNIP::end_step(const optim::StepResult& result) {
    // A skipped step did not happen: what was measured in it goes, and the step is measured again.
    const bool measured_now = in_flight_ && in_flight_->swap_step == step_ + schedule_.swap_delay;
    if (!result.applied && measured_now) in_flight_.reset();
    begin_step(optimizer_.steps(), optimizer_.steps() + optimizer_.skipped());
}

void SNIP::begin_step(std::int64_t step, std::int64_t iteration) {
    step_ = step;
    iteration_ = iteration;
    precision_->step = static_cast<std::uint32_t>(iteration);
    precision_->micro_batch = 0;
    if (in_flight_ && step >= in_flight_->swap_step) {
        InFlight in_flight = std::move(*in_flight_);
        in_flight_.reset();
        finish_solve(in_flight);
        SnipEvent& event = in_flight.event;
        event.effective_at = iteration;
        event.applied = event.result.status != plan::SelectionStatus::kNoSolution;
        if (event.applied) {
            event.changed_slots =
                plan::changed_slots(precision_->plan(), event.result.plan, precision_->table());
            precision_->set_plan(event.result.plan);
        }
        if (listener_) listener_(event);
    }
    sink_active_ = schedule_.collects_at(step) && !in_flight_;
    if (sink_active_) {
        sink_.reset();
        precision_->observer = &sink_;
    } else if (precision_->observer == &sink_) {
        precision_->observer = nullptr;
    }
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
    InFlight in_flight;
    in_flight.swap_step = step_ + schedule_.swap_delay;
    SnipEvent& event = in_flight.event;
    event.measured_at = iteration_;
    // The other methods do not look at gains.
    const bool probed = input.replay && options_.method == "snip";
    const snip::Measurement measurement =
        snip::measure(sink_, *precision_, weights_, optimizer_,
                      {.step = iteration_,
                       .loss = input.loss,
                       .replay = probed ? input.replay : snip::LossFunction{},
                       .probe = {options_.probes, options_.probe_scale,
                                 options_.seed + static_cast<std::uint64_t>(step_)},
                       .high = options_.high});
    statistics_ = measurement.statistics;
    event.probe_passes = measurement.probe_passes;
    event.statistics_seconds = measurement.statistics_seconds;
    event.probe_seconds = measurement.probe_seconds;
    sink_.reset();
    const plan::PlannerOptions planner = planner_of(options_, schedule_.target_at(step_));
    in_flight.solve = std::async(
        std::launch::async, [statistics = statistics_, planner, make_plan = options_.planner] {
            const Stopwatch watch;
            plan::PlanResult result = make_plan(statistics.table, statistics, planner);
            result.seconds = watch.seconds();
            return result;
        });
    in_flight_ = std::move(in_flight);
}

void SNIP::finish_solve(InFlight& in_flight) {
    if (!in_flight.solve.valid()) return;
    const Stopwatch watch;
    try {
        in_flight.event.result = in_flight.solve.get();
    } catch (const Error& error) {
        // Numbers that cannot be planned with (a diverging step): the plan in force stays.
        if (error.code() != ErrorCode::kDiverged) throw;
        in_flight.event.result.status = plan::SelectionStatus::kNoSolution;
        in_flight.event.result.notes.push_back(error.what());
    }
    in_flight.event.wait_seconds = watch.seconds();
    in_flight.event.solve_seconds = in_flight.event.result.seconds;
}

nlohmann::json SNIP::state() {
    nlohmann::json json{
        {"step", step_}, {"iteration", iteration_}, {"plan", plan::to_json(plan())}};
    if (in_flight_) {
        finish_solve(*in_flight_);
        const SnipEvent& event = in_flight_->event;
        const plan::PlanResult& r = event.result;
        json["in_flight"] = {{"swap_step", in_flight_->swap_step},
                             {"measured_at", event.measured_at},
                             {"usable", r.status != plan::SelectionStatus::kNoSolution},
                             {"plan", plan::to_json(r.plan)},
                             {"target", r.target},
                             {"reached", r.reached},
                             {"relaxed", r.relaxed},
                             {"predicted", {r.predicted_loss, r.predicted_weight, r.predicted}},
                             {"notes", r.notes}};
    }
    return json;
}

void SNIP::load_state(const nlohmann::json& state) {
    try {
        const plan::Plan plan = plan::plan_from_json(state.at("plan"), &precision_->table());
        std::optional<InFlight> in_flight;
        if (state.contains("in_flight")) {
            const nlohmann::json& saved = state.at("in_flight");
            in_flight.emplace();
            in_flight->swap_step = saved.at("swap_step").get<std::int64_t>();
            SnipEvent& event = in_flight->event;
            event.measured_at = saved.at("measured_at").get<std::int64_t>();
            plan::PlanResult& r = event.result;
            r.plan = plan::plan_from_json(saved.at("plan"), &precision_->table());
            r.status = saved.at("usable").get<bool>() ? plan::SelectionStatus::kOptimal
                                                      : plan::SelectionStatus::kNoSolution;
            r.efficiency = options_.efficiency;
            r.target = saved.at("target").get<double>();
            r.reached = saved.at("reached").get<double>();
            r.relaxed = saved.at("relaxed").get<bool>();
            r.predicted_loss = saved.at("predicted").at(0).get<double>();
            r.predicted_weight = saved.at("predicted").at(1).get<double>();
            r.predicted = saved.at("predicted").at(2).get<double>();
            r.notes = saved.at("notes").get<std::vector<std::string>>();
        }
        const auto step = state.at("step").get<std::int64_t>();
        const auto iteration = state.at("iteration").get<std::int64_t>();
        precision_->set_plan(plan);
        in_flight_ = std::move(in_flight);
        begin_step(step, iteration);
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorCode::kData, fmt::format("SNIP state: {}", error.what()));
    }
}

}  // namespace subbyte
