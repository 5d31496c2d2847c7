// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/gradient_step.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "subbyte/core/error.h"
#include "subbyte/ops/noise_role.h"

namespace subbyte::train {
namespace {

std::int64_t count_targets(const std::vector<MicroBatch>& micro_batches) {
    std::int64_t count = 0;
    for (const MicroBatch& batch : micro_batches) {
        const at::Tensor targets = batch.targets.contiguous();
        const std::int64_t* label = targets.const_data_ptr<std::int64_t>();
        for (std::int64_t i = 0; i < targets.numel(); ++i) count += label[i] != ops::kIgnoredLabel;
    }
    if (count == 0) {
        throw Error(ErrorCode::kUsage, "a step without a single target has no loss",
                    "at least one label of the step must not be -100");
    }
    return count;
}

}  // namespace

AccumulatedLoss accumulate_gradients(const ModelLoss& loss,
                                     const std::vector<MicroBatch>& micro_batches,
                                     nn::Precision& precision,
                                     const std::function<void()>& before_last) {
    if (micro_batches.size() > ops::kMaxMicroBatches) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("{} micro-batches in a step, at most {} have noise of their own",
                                micro_batches.size(), ops::kMaxMicroBatches),
                    "make them larger");
    }
    AccumulatedLoss result;
    result.targets = count_targets(micro_batches);
    const double weight = 1.0 / static_cast<double>(result.targets);
    int index = 0;
    for (const MicroBatch& batch : micro_batches) {
        precision.micro_batch = index++;
        if (before_last && &batch == &micro_batches.back()) before_last();
        const ops::SummedLoss part = loss(batch.ids, batch.targets);
        if (part.count == 0) continue;
        const at::Tensor mean = part.sum.mul(weight);
        mean.backward();
        result.mean += mean.item<double>();
    }
    precision.micro_batch = 0;
    return result;
}

AccumulatedLoss evaluate(const ModelLoss& loss, const std::vector<MicroBatch>& micro_batches,
                         nn::Precision& precision) {
    at::NoGradGuard no_grad;
    // Statistics belong to training steps.
    ops::LinearObserver* observer = precision.observer;
    precision.observer = nullptr;
    AccumulatedLoss result;
    double sum = 0;
    try {
        for (const MicroBatch& batch : micro_batches) {
            const ops::SummedLoss part = loss(batch.ids, batch.targets);
            sum += part.sum.item<double>();
            result.targets += part.count;
        }
    } catch (...) {
        precision.observer = observer;
        throw;
    }
    precision.observer = observer;
    if (result.targets == 0) {
        throw Error(ErrorCode::kUsage, "the evaluation data has no target",
                    "at least one label must not be -100");
    }
    result.mean = sum / static_cast<double>(result.targets);
    return result;
}

}  // namespace subbyte::train
