// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subbyte/nn/precision.h"
#include "subbyte/optim/optimizer.h"
#include "subbyte/snip/noise_probe.h"
#include "subbyte/snip/statistics_sink.h"

namespace subbyte::snip {

struct MeasureOptions {
    std::int64_t step = 0;
    double loss = 0;  // mean loss of the iteration; 0: unknown, then DL is in nats, not relative
    LossFunction replay{};  // recomputes the mean loss of a fixed batch; without it no probes run
    ProbeOptions probe{};
    std::string high = "bf16";  // recipe of the probe passes
};

// What is known about the model after one measuring iteration, and what knowing it cost.
struct Measurement {
    plan::ModelStatistics statistics;
    int probe_passes = 0;
    double statistics_seconds = 0, probe_seconds = 0;
};

// Closes an iteration (forward and backward have run, the optimizer step has not) during which
// `sink` was the observer of `precision`: adds gradient norms and the optimizer's sensitivities to
// what the sink has seen, then runs the noise probes. `weights` are those of the layers of the
// table, in its order. Changes neither weights, gradients nor the optimizer. Error kUsage when a
// weight is not trained by `optimizer`.
Measurement measure(const StatisticsSink& sink, nn::Precision& precision,
                    const std::vector<at::Tensor>& weights, const optim::Optimizer& optimizer,
                    const MeasureOptions& options);

}  // namespace subbyte::snip
