// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "subbyte/nn/precision.h"
#include "subbyte/plan/divergence.h"
#include "subbyte/snip/gradients.h"

namespace subbyte::snip {

// Which layers share one noise pass. Layers of a group get independent noise of equal relative size
// in the same pass, and the squared change that it makes is divided among them: for noise in Y in
// proportion to the variance it gives the loss, |G|^2 |noise|^2 / N, for noise in dX to |noise|.
enum class Probes {
    kNone,    // no extra passes: only the direct error path is known
    kShared,  // all layers in one group: 3 passes (SNIP's literal steps)
    kBlock,   // one group per transformer block: 1 + 2 * blocks passes
    kLayer,   // every layer by itself: 1 + 2 * layers passes
};

// "none", "shared", "block", "layer"; probes_from_name is the inverse (Error kUsage with the
// nearest).
std::string_view probes_name(Probes probes);
std::vector<std::string> probes_names();
Probes probes_from_name(std::string_view name);

struct ProbeOptions {
    Probes probes = Probes::kShared;
    // |noise| / |tensor| in the disturbed layers: far above the rounding of a BF16 pass, and small
    // enough for gains to be linear.
    double scale = 0.05;
    std::uint64_t seed = 0;  // address of the noise
    bool curvature = false;  // also LayerStatistics::curvature: a forward pass more per group
    // Also what this plan does to loss and gradients: a pass more under it.
    std::optional<plan::Plan> in_force{};
};

struct ProbeResult {
    int passes = 0;  // forward and backward counted as one
    // DL and DW of ProbeOptions::in_force on the batch of the passes, the optimizer's step taken as
    // linear in the gradients; and how many tokens the batch has for one of the step.
    std::optional<plan::Divergence> realised{};
    double tokens = 1;
};

// Sequences of a batch that the probes need: enough for 256 tokens, at most a quarter of them.
// Gains are averages over tokens; half as many gave the agreement with brute force that
// docs/design/snip.md tells of.
std::int64_t probe_sequences(std::int64_t batch, std::int64_t seq_len);

// Measures how an error at layer l reaches the weight gradient of layer k: fills `backward[k]` and
// `forward[k]` of every layer's statistics (and statistics.loss), with Gaussian noise in dX_l and
// in Y_l. All these passes run in the recipe `high`, pinned slots too, and touch neither gradients
// nor the optimizer; the plan in force is put back. One forward pass serves all passes with noise
// in dX.
ProbeResult measure_gains(const LossFunction& loss, nn::Precision& precision,
                          const std::vector<at::Tensor>& weights, const optim::Optimizer& optimizer,
                          const ProbeOptions& options, const std::string& high,
                          plan::ModelStatistics& statistics);

}  // namespace subbyte::snip
