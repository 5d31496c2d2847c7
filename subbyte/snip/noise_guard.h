// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "subbyte/snip/control_event.h"
#include "subbyte/snip/precision_ladder.h"

namespace subbyte::snip {

// The weight gradient of one layer in a measuring step: |g| with operands in high precision, and
// |g_q - g| against the operands that the wgrad GEMM really had. Summed over all tokens of the step
// before the norm is taken.
struct GradientNoise {
    std::string layer;
    double gradient = 0, noise = 0;
};

// Raises the wgrad GEMM of a layer one precision step when the running mean of |g| / |g_q - g|
// falls below `ratio`. Quantised training stops helping when the gradient is less than about
// sqrt(3) times its noise ("FP4 All the Way", for the whole model; by layer here). The ratio is one
// of the weight gradient: on dY it is a constant of the format and tells nothing. What was raised
// stays raised, whatever plan comes: a layer's gradient does not grow again as training settles.
class NoiseGuard {
public:
    // ratio 0: off. decay: weight of the past in the running mean, with bias correction, per
    // measurement. Error kUsage when out of range.
    NoiseGuard(double ratio, double decay);
    bool active() const { return ratio_ > 0; }

    // Takes a measurement made under `plan`. A mean belongs to the recipe it was measured under: it
    // starts anew when that changes. Gives one event when layers were raised.
    std::vector<ControlEvent> observe(const std::vector<GradientNoise>& noise,
                                      const plan::Plan& plan, const PrecisionLadder& ladder);

    // Lifts every layer to what the guard demands.
    void apply(plan::Plan& plan) const;

    nlohmann::json state() const;
    void load_state(const nlohmann::json& state);  // throws nlohmann::json::exception

private:
    struct Mean {
        std::string recipe;
        double value = 0, weight = 0;  // sum of decayed ratios, sum of their weights
    };
    double ratio_, decay_;
    std::map<std::string, Mean> means_;
    std::map<std::string, std::string> floor_;  // layer: least precise recipe of its wgrad
};

}  // namespace subbyte::snip
