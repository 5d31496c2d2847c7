// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "subbyte/snip/control_event.h"

namespace subbyte::snip {

struct LossAdjustOptions {
    double step = 0;            // by how much the target moves; 0: off
    std::int64_t window = 100;  // steps whose mean loss is compared with that of the window before
    double progress = 0.005;    // relative fall of the loss from window to window that is enough
    double range = 0.3;         // the target moves at most this far from its schedule, either way
};

// Moves the target of the planner by how training goes: a window without enough progress lowers it
// (higher precision), a window with progress raises it. The idea of progressive precision control
// by loss (FracTrain: raise the precision when the loss stops falling), with a budget in the place
// of bits. Takes effect with the next plan.
class LossAdjuster {
public:
    explicit LossAdjuster(const LossAdjustOptions& options);  // Error kUsage when out of range
    bool active() const { return options_.step > 0; }

    // Takes the loss of a step that has ended. Gives an event when the target moves. Losses that
    // are not finite are left out.
    std::vector<ControlEvent> end_step(double loss);

    double offset() const { return offset_; }
    // The target of the schedule as moved, within 0 .. most.
    double adjusted(double target, double most) const;

    nlohmann::json state() const;
    void load_state(const nlohmann::json& state);  // throws nlohmann::json::exception

private:
    LossAdjustOptions options_;
    double offset_ = 0, sum_ = 0;
    std::int64_t count_ = 0;
    std::optional<double> last_;  // mean loss of the window before
};

}  // namespace subbyte::snip
