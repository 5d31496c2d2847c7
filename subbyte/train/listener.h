// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "subbyte/plan/layer_table.h"
#include "subbyte/plan/plan.h"
#include "subbyte/snip/snip.h"

namespace subbyte::train {

// What is known before the first step.
struct RunStart {
    std::string run_dir, model, tokenizer, optimizer, schedule, precision;
    std::int64_t parameters = 0, layers = 0, train_tokens = 0, validation_tokens = 0;
    std::int64_t first_step = 0, total_steps = 0, tokens_per_step = 0;
    int threads = 0;
    std::string cpu, isa;
    std::vector<std::string> kernels;  // one line per recipe: native or emulated, and why
    std::string control;               // what is on in [precision.control]; empty: nothing
    std::vector<std::string> rules;    // what [[precision.rule]] and precision.head come to
    double weight_bytes = 0, gradient_bytes = 0, state_bytes = 0;
    double packed_bytes = 0, activation_bytes = 0, head_bytes = 0;  // see MemoryPlan
    double planned_peak_bytes = 0;
};

struct StepRecord {
    std::int64_t step = 0, total = 0;  // step counts from 1
    double loss = 0, grad_norm = 0, lr = 0;
    double seconds = 0, tokens_per_second = 0, eta_seconds = 0;
    double fp4_share = 0, bits = 0;
    std::int64_t skipped = 0;  // non-finite steps so far
    bool applied = true;
};

struct EvalRecord {
    std::int64_t step = 0, targets = 0;
    double loss = 0, perplexity = 0, seconds = 0;
};

struct RunEnd {
    std::int64_t step = 0;
    bool interrupted = false;
    std::optional<double> loss, validation_loss;  // the last ones; empty: no step, no evaluation
    double train_seconds = 0, evaluation_seconds = 0;
    std::int64_t steps_run = 0;  // in this session; train_seconds are theirs
    int plans = 0, changed_slots = 0, decisions = 0;
    int measurements = 0;  // plans made in this session; the seconds below are theirs
    // What the training waited for; and the solver, which runs beside it.
    double statistics_seconds = 0, probe_seconds = 0, wait_seconds = 0;
    double solve_seconds = 0;
    double peak_memory_bytes = 0, planned_peak_bytes = 0;
    std::vector<std::string>
        kernels;  // what ran: kernel, native or emulated, share of multiply-adds

    double overhead_seconds() const { return statistics_seconds + probe_seconds + wait_seconds; }
    // `seconds` of this session as a share of its training time without planning.
    double share(double seconds) const {
        const double plain = train_seconds - overhead_seconds();
        return plain > 0 ? seconds / plain : 0.0;
    }
    // The same if plans were made every `interval` steps.
    double share_at(double seconds, double interval) const {
        return measurements > 0 && steps_run > 0
                   ? share(seconds) * static_cast<double>(steps_run) / (measurements * interval)
                   : 0.0;
    }
};

// Receives the events of a run: the console, the log file, a test.
class Listener {
public:
    virtual ~Listener() = default;
    virtual void on_start(const RunStart&) {}
    virtual void on_step(const StepRecord&) {}
    virtual void on_eval(const EvalRecord&) {}
    virtual void on_plan(const SnipEvent&, const plan::LayerTable&) {}
    virtual void on_control(const ControlEvent&) {}
    virtual void on_checkpoint(std::int64_t /*step*/, const std::string& /*dir*/) {}
    virtual void on_message(const std::string&) {}
    virtual void on_end(const RunEnd&) {}
};

}  // namespace subbyte::train
