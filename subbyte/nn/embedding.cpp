// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/nn/embedding.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "subbyte/core/error.h"

namespace subbyte::nn {

EmbeddingImpl::EmbeddingImpl(std::int64_t count, std::int64_t size) {
    weight = register_parameter("weight", at::zeros({count, size}));
}

at::Tensor EmbeddingImpl::forward(const at::Tensor& ids) {
    const at::Tensor flat = ids.to(at::kLong).contiguous();
    const std::int64_t* id = flat.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
        if (id[i] < 0 || id[i] >= weight.size(0)) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("token id {} at position {} is outside the vocabulary of {}",
                                    id[i], i, weight.size(0)),
                        "the tokenizer must not have more pieces than the model's vocabulary");
        }
    }
    return at::embedding(weight, flat);
}

}  // namespace subbyte::nn
