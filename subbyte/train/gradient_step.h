// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "subbyte/nn/precision.h"
#include "subbyte/ops/loss.h"

namespace subbyte::train {

// One forward + backward pass worth of data: ids and targets, int64 [batch, tokens].
struct MicroBatch {
    at::Tensor ids, targets;
};

using ModelLoss = std::function<ops::SummedLoss(const at::Tensor& ids, const at::Tensor& targets)>;

struct AccumulatedLoss {
    double mean = 0;  // over all counted targets of all micro-batches
    std::int64_t targets = 0;
};

// Adds the gradients of the mean loss over all targets of the step to .grad(): every target weighs
// the same, whatever micro-batch it is in. Numbers the micro-batches in `precision` (noise
// address). Error kUsage when there is no micro-batch or no target at all, and for more than
// ops::kMaxMicroBatches. `before_last` is called before the last micro-batch.
AccumulatedLoss accumulate_gradients(const ModelLoss& loss,
                                     const std::vector<MicroBatch>& micro_batches,
                                     nn::Precision& precision,
                                     const std::function<void()>& before_last = {});

// Mean loss over the micro-batches without gradients; `targets` counts what it rests on.
AccumulatedLoss evaluate(const ModelLoss& loss, const std::vector<MicroBatch>& micro_batches,
                         nn::Precision& precision);

}  // namespace subbyte::train
