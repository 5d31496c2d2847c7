// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "subbyte/nn/precision.h"

namespace torch::nn {
class Module;
}

namespace subbyte::nn {

// Finds every nn::Linear of a model (in the order of named_modules), gives each its ordinal, and
// connects it to one new precision table. A shared module is one layer, under its first name.
// Layers whose path ends in one of `keep_high` stay in the recipe `high` and are no candidates.
std::shared_ptr<Precision> attach_precision(torch::nn::Module& model,
                                            const std::vector<std::string>& keep_high = {"lm_head"},
                                            const std::string& high = "bf16");

// Weights of the layers of `precision`, in the order of its table.
std::vector<at::Tensor> layer_weights(const torch::nn::Module& model, const Precision& precision);

// Bytes of quantised weight copies that the layers hold now.
std::int64_t weight_cache_bytes(const torch::nn::Module& model);

// Drops the quantised weight copies of all layers. Needed after a change that does not count the
// weight's version up: through weight.data(), or through a pointer. Every other change is noticed.
void clear_weight_caches(torch::nn::Module& model);

}  // namespace subbyte::nn
