// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "subbyte/nn/attach.h"
#include "subbyte/optim/optimizer.h"
#include "subbyte/plan/planner.h"
#include "subbyte/plan/schedule.h"
#include "subbyte/snip/control.h"
#include "subbyte/snip/gradient_noise.h"
#include "subbyte/snip/noise_probe.h"
#include "subbyte/snip/realised.h"
#include "subbyte/snip/replan.h"
#include "subbyte/snip/statistics_sink.h"

namespace subbyte {

struct SnipOptions {
    plan::TargetSchedule schedule = plan::TargetSchedule::kArticle;
    double initial_target = 0.3;          // least efficiency of the plan, E_t
    std::int64_t update_interval = 100;   // steps between statistics
    double target_increment = 0.0;        // E_t grows by this ...
    std::int64_t increment_every = 5000;  // ... every so many steps ...
    double max_target = 0.8;              // ... up to here (never below initial_target)
    double damage_bound = 0.01;           // quality-held: most predicted DL, relative to the loss
    double hysteresis = 0.05;       // a new plan must cost less than (1 - this) of the one in force
    bool frozen = false;            // never a new plan: that of start_with() or load_state() stays
    std::int64_t warmup_steps = 0;  // high precision before the first statistics
    double freeze_fraction = 0.1;   // no new plan in the last share of total_steps
    std::int64_t total_steps = 0;   // 0: not known, never frozen
    std::int64_t swap_delay = 0;    // steps from statistics to plan; 0: min(5, update_interval)
    std::string method = "snip";    // see plan::planner_methods()
    std::vector<std::string> recipes{"fp8",
                                     "fp4"};  // with kTimeSaved also "bf16", see plan::Efficiency
    plan::Efficiency efficiency = plan::Efficiency::kFp4Share;  // what the target is a share of
    std::shared_ptr<const plan::MachineProfile> profile{};      // for Efficiency::kSeconds
    plan::Granularity granularity = plan::Granularity::kGemm;
    std::vector<std::string> coupled{};  // see plan::PlannerOptions
    // Pipeline stages, see plan::assign_stages(): each must reach the target by itself.
    std::vector<int> stages{1};
    double loss_weight = 1.0, weight_weight = 2.0;
    plan::LossEstimator estimator = plan::LossEstimator::kNormOnly;
    bool squared = true;
    // Output errors (estimators fisher, gradient-output, taylor) by SnipInput::sampled.
    bool sampled_labels = false;
    snip::Probes probes = snip::ProbeOptions{}.probes;
    double probe_scale = snip::ProbeOptions{}.scale;
    double solve_seconds = 10.0;
    std::string high = "bf16";  // recipe before the first plan, of probes, and of kept layers
    std::vector<std::string> keep_high{"lm_head"};
    std::uint64_t seed = 0;
    ControlOptions control{};                 // guards beside the planner, all off
    snip::Planner planner = plan::make_plan;  // runs in a thread of its own
};

// What the training loop knows about the iteration whose statistics are collected.
struct SnipInput {
    double loss = 0;  // mean loss of the step; 0: unknown, then DL is in nats, not relative
    snip::LossFunction
        replay;  // recomputes the mean loss of a fixed batch; without it no probes run
    snip::LossFunction sampled{};  // the same with labels that are drawn from the model
};

// One re-planning, told to the listener when its plan takes effect (or is given up). Both times are
// iterations: skipped steps count.
struct SnipEvent {
    std::int64_t measured_at = 0, effective_at = 0;
    plan::PlanResult result;
    int changed_slots = 0;
    bool applied = false;  // false: the previous plan stays in force, result.notes say why
    bool kept = false;     // a plan was found but is not better enough, see hysteresis
    double cost = 0, cost_in_force = 0;  // predicted today; 0: not compared
    int probe_passes = 0;
    // What the plan that was in force when it was measured was predicted to do and did, on the
    // tokens of the probes; none while it was that of high precision.
    std::optional<snip::Realised> in_force{};
    // The training waited for the first three; the solver ran beside it.
    double statistics_seconds = 0, probe_seconds = 0, wait_seconds = 0;
    double solve_seconds = 0;
};

// Adaptive layer-wise precision (SNIP, arXiv 2602.01410) around an ordinary training loop:
//
//   SNIP snip(model, optimizer, {.initial_target = 0.4, .update_interval = 100});
//   for (step = 0; ...; ++step) {
//       loss = model->forward(batch);
//       loss.backward();
//       if (step % snip.update_interval() == 0) snip.collect_stats();
//       optimizer.step();
//       optimizer.zero_grad();
//   }
//
// Statistics are gathered by the iteration itself; collect_stats() closes them, runs the noise
// probes when it is given a replay, and starts the solver beside the training. The plan takes
// effect at a step that is fixed in advance, whatever the solver's speed, so runs repeat exactly. A
// step that the optimizer skips does not count: statistics due in it are gathered again in the next
// one. Must be made before the first forward pass; model and optimizer must outlive it.
class SNIP {
public:
    SNIP(torch::nn::Module& model, optim::Optimizer& optimizer, SnipOptions options = {});
    // Model: a LibTorch module holder (TORCH_MODULE) or std::shared_ptr to a module.
    template <typename Holder,
              typename = std::enable_if_t<!std::is_base_of_v<torch::nn::Module, Holder>>>
    SNIP(Holder& model, optim::Optimizer& optimizer, SnipOptions options = {})
        : SNIP(static_cast<torch::nn::Module&>(*model), optimizer, std::move(options)) {}
    ~SNIP();
    SNIP(const SNIP&) = delete;
    SNIP& operator=(const SNIP&) = delete;

    std::int64_t update_interval() const { return schedule_.update_interval; }
    // True in the steps in which collect_stats() has to be called.
    bool due() const { return sink_active_; }

    // Between backward and optimizer.step(). Errors: kUsage in a step that is not due; kDiverged
    // when the loss is not finite, with the first layer and tensor that is not.
    void collect_stats(const SnipInput& input = {});

    // Mean loss of the step, before optimizer.step(). Without it the spike guard sees gradient
    // norms alone and the loss adjustment nothing.
    void note_loss(double loss) { loss_ = loss; }

    const plan::Plan& plan() const { return precision_->plan(); }  // in force
    const plan::Plan& planned() const { return planned_; }  // before the guards raise anything
    // Puts a plan in force from which the run starts; with `keep` load_state() leaves it there.
    // Error kUsage as Precision::set_plan.
    void start_with(const plan::Plan& plan, bool keep = false);
    double fp4_share() const;
    nn::Precision& precision() { return *precision_; }
    std::shared_ptr<nn::Precision> shared_precision() { return precision_; }
    const plan::ModelStatistics& statistics() const {
        return statistics_;
    }  // of the last collection
    const std::vector<at::Tensor>& weights() const {
        return weights_;
    }  // of the layers, table order

    void on_plan(std::function<void(const SnipEvent&)> listener) {
        listener_ = std::move(listener);
    }
    void on_control(std::function<void(const ControlEvent&)> listener) {
        control_listener_ = std::move(listener);
    }

    // Everything a resume needs: plan in force, plan in flight (waits for the solver), guards,
    // counters.
    nlohmann::json state();
    void load_state(const nlohmann::json& state);  // Error kData

    // A spike asks for the last state before it. The caller restores weights and optimizer from
    // a checkpoint and hands over the state() saved with it; or declines. The promotion that the
    // spike caused stays, and until it ends no other spike asks again.
    bool wants_roll_back() const { return control_.spike.wants_roll_back(); }
    void roll_back(const nlohmann::json& state);  // Error kData
    void decline_roll_back(const std::string& reason);

private:
    struct InFlight {
        std::int64_t swap_step = 0;
        SnipEvent event;
        std::future<snip::ReplanResult>
            solve;                   // not valid when `event.result` already holds the plan
        std::vector<double> damage;  // see ReplanResult
    };

    void end_step(const optim::StepResult& result);
    // Swaps a due plan in, switches the sink on or off.
    void begin_step(std::int64_t step, std::int64_t iteration);
    void finish_solve(InFlight& in_flight);  // waits, and counts how long
    void swap_in(InFlight in_flight);
    void enforce();  // puts in force what the controls make of the plan
    void tell(const std::vector<ControlEvent>& events);

    optim::Optimizer& optimizer_;
    SnipOptions options_;
    plan::PlanSchedule schedule_;
    std::shared_ptr<nn::Precision> precision_;
    std::vector<at::Tensor> weights_;
    snip::StatisticsSink sink_;
    snip::GradientNoiseSink noise_sink_;  // passes on to sink_; listens when the noise guard is on
    snip::Control control_;
    plan::Plan planned_;
    bool keep_planned_ = false;               // load_state() leaves it as it is
    std::vector<double> damage_;              // of planned_, per layer; empty: not known
    std::vector<snip::GradientNoise> noise_;  // measured in this step
    std::optional<double> loss_;              // of this step
    bool sink_active_ = false;
    std::int64_t step_ = 0;       // applied steps: the position in the schedule
    std::int64_t iteration_ = 0;  // with the skipped ones: the noise address
    plan::ModelStatistics statistics_;
    std::optional<InFlight> in_flight_;
    std::function<void(const SnipEvent&)> listener_;
    std::function<void(const ControlEvent&)> control_listener_;
    std::shared_ptr<SNIP*> self_;  // cleared on destruction, so that the hook is harmless
};

}  // namespace subbyte
