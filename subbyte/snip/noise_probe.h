// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "subbyte/nn/precision.h"
#include "subbyte/ops/linear_observer.h"
#include "subbyte/plan/statistics.h"

namespace subbyte::snip {

// Runs one forward pass on a fixed batch and returns the mean loss with its graph. Every call must
// see the same batch.
using LossFunction = std::function<at::Tensor()>;

// Which layers share one noise pass. Layers of a group get independent noise of equal relative size
// in the same pass and share the gain measured for it.
enum class Probes {
    kNone,    // no extra passes: only the direct error path is known
    kShared,  // all layers in one group: 3 passes (SNIP's literal steps)
    kBlock,   // one group per transformer block: 1 + 2 * blocks passes
    kLayer,   // every layer by itself: 1 + 2 * layers passes
};

struct ProbeOptions {
    Probes probes = Probes::kBlock;
    // |noise| / |tensor| in the disturbed layers: far above the rounding of a BF16 pass, and small
    // enough for gains to be linear.
    double scale = 0.05;
    std::uint64_t seed = 0;  // address of the noise
};

// Measures how an error at layer l reaches the weight gradient of layer k: fills `backward[k]` and
// `forward[k]` of every layer's statistics (and statistics.loss), with Gaussian noise in dX_l and
// in Y_l. All passes run in the recipe `high` and touch neither gradients nor the optimizer; the
// plan in force is put back. Returns the number of forward + backward passes.
int measure_gains(const LossFunction& loss, nn::Precision& precision,
                  const std::vector<at::Tensor>& weights, const ProbeOptions& options,
                  const std::string& high, plan::ModelStatistics& statistics);

// Gradients of the mean loss with respect to `weights`, without touching .grad().
struct Gradients {
    double loss = 0;
    std::vector<at::Tensor>
        gradients;  // parallel to weights; zeros where the loss does not depend on one
};
Gradients gradients_of(const LossFunction& loss, const std::vector<at::Tensor>& weights);

}  // namespace subbyte::snip
