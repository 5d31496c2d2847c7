// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/loss.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <fmt/format.h>

#include "subbyte/core/error.h"

namespace subbyte::ops {

at::Tensor checked_labels(const at::Tensor& labels, std::int64_t vocabulary, std::int64_t rows,
                          std::int64_t* count) {
    at::Tensor flat = labels.reshape({-1}).to(at::kLong).contiguous();
    if (flat.numel() != rows) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("loss: {} labels for {} rows of logits", flat.numel(), rows));
    }
    *count = 0;
    const std::int64_t* label = flat.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < rows; ++i) {
        if (label[i] == kIgnoredLabel) continue;
        if (label[i] < 0 || label[i] >= vocabulary) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("loss: label {} at position {} is outside the vocabulary of {}",
                                    label[i], i, vocabulary),
                        "use a tokenizer whose size fits the model, or -100 to ignore a position");
        }
        ++*count;
    }
    return flat;
}

SummedLoss cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
    const std::int64_t vocabulary = logits.size(-1);
    SummedLoss loss;
    const at::Tensor flat = checked_labels(
        labels, vocabulary, logits.numel() / std::max<std::int64_t>(1, vocabulary), &loss.count);
    loss.sum = at::cross_entropy_loss(logits.reshape({-1, vocabulary}), flat, {},
                                      at::Reduction::Sum, kIgnoredLabel);
    return loss;
}

}  // namespace subbyte::ops
