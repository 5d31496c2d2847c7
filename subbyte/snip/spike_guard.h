// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "subbyte/snip/control_event.h"
#include "subbyte/snip/precision_ladder.h"

namespace subbyte::snip {

// Tells values that lie far above their running mean. Mean and variance are exponential averages
// (decay 0.95, bias corrected); a spike enters them as the largest value that is none, so that one
// outlier does not hide the next and a lasting change of level is accepted after a while. The
// deviation counts as at least a thousandth of the mean.
class SpikeDetector {
public:
    explicit SpikeDetector(double sigma) : sigma_(sigma) {}

    // How far the value lies above the bound mean + sigma * deviation, as text, when it does; false
    // in the first kLearning values. Non-finite values are neither spikes nor remembered: the
    // optimizer skips their steps.
    std::optional<std::string> observe(double value);

    nlohmann::json state() const;
    void load_state(const nlohmann::json& state);

    static constexpr std::int64_t kLearning = 20;
    static constexpr double kDecay = 0.95;

private:
    double sigma_;
    std::int64_t count_ = 0;
    double mean_ = 0, square_ = 0;  // decayed sums of x and of (x - mean)^2, not corrected
};

struct SpikeOptions {
    double sigma = 0;         // 0: off
    std::int64_t hold = 100;  // steps of higher precision after a spike
    double share = 1;         // of the quantised GEMM FLOPs, the most damaging layers first
    bool roll_back = false;   // ask for the last checkpoint before the spike
};

// Answers a spike of the loss or of the gradient norm with higher precision for a while: every GEMM
// of the chosen layers moves one step up. A further spike in that time starts it anew.
class SpikeGuard {
public:
    explicit SpikeGuard(const SpikeOptions& options);  // Error kUsage when out of range
    bool active() const { return options_.sigma > 0; }

    // Takes loss and gradient norm of the step that has ended; `step` is the next one. `damage` of
    // every layer of the table under the plan in force (empty: not known, then all layers count as
    // equal).
    std::vector<ControlEvent> end_step(std::int64_t step, double loss, double grad_norm,
                                       const plan::Plan& plan, const plan::LayerTable& table,
                                       const std::vector<double>& damage);

    void apply(std::int64_t step, const PrecisionLadder& ladder, plan::Plan& plan) const;

    // True after a spike that asks for a roll-back, until roll_back() or decline() answers.
    bool wants_roll_back() const { return wants_roll_back_; }
    // The state is that of an earlier step now (the caller has loaded it): keeps the promotion of
    // `before`, and asks for no other roll-back before that spike is overcome.
    void roll_back(const SpikeGuard& before);
    void decline() { wants_roll_back_ = false; }
    const std::string& last_spike() const { return last_spike_; }  // what it was, as text

    nlohmann::json state() const;
    void load_state(const nlohmann::json& state);  // throws nlohmann::json::exception

private:
    SpikeOptions options_;
    SpikeDetector loss_, norm_;
    std::int64_t until_ = 0;      // first step without promotion
    std::int64_t no_return_ = 0;  // spikes before this step ask for no roll-back
    std::vector<std::string> promoted_;
    bool wants_roll_back_ = false;
    std::string last_spike_;
};

}  // namespace subbyte::snip
