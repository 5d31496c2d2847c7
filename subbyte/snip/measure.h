// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "subbyte/nn/precision.h"
#include "subbyte/optim/optimizer.h"
#include "subbyte/snip/noise_probe.h"
#include "subbyte/snip/realised.h"
#include "subbyte/snip/statistics_sink.h"

namespace subbyte::snip {

struct MeasureOptions {
    std::int64_t step = 0;
    double loss = 0;  // mean loss of the iteration; 0: unknown, then DL is in nats, not relative
    LossFunction replay{};  // recomputes the mean loss of a fixed batch; without it no probes run
    ProbeOptions probe{};
    // The mean loss of a fixed batch whose labels are drawn from the model; given, output errors of
    // `recipes` are measured by it (sampled_outputs.h), under `sampled_plan` or uniform `high`.
    LossFunction sampled{};
    std::vector<std::string> recipes{};
    std::optional<plan::Plan> sampled_plan{};
    std::string high = "bf16";                                       // recipe of the probe passes
    plan::LossEstimator estimator = plan::LossEstimator::kNormOnly;  // predicts probe.in_force
};

// What is known about the model after one measuring iteration, and what knowing it cost.
struct Measurement {
    plan::ModelStatistics statistics;
    int probe_passes = 0;
    double statistics_seconds = 0, probe_seconds = 0;
    // Of probe.in_force on the tokens of the probes: predicted errors are independent from token to
    // token, so they are larger there by the root of how many fewer there are.
    std::optional<Realised> in_force{};
};

// Closes an iteration (forward and backward have run, the optimizer step has not) during which
// `sink` was the observer of `precision`: adds gradient norms and the optimizer's sensitivities to
// what the sink has seen, then runs the noise probes and the pass with drawn labels. `weights` are
// those of the layers of the table, in its order. Changes neither weights, gradients nor the
// optimizer. Error kUsage when a weight is not trained by `optimizer`.
Measurement measure(const StatisticsSink& sink, nn::Precision& precision,
                    const std::vector<at::Tensor>& weights, const optim::Optimizer& optimizer,
                    const MeasureOptions& options);

}  // namespace subbyte::snip
