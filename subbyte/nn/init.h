// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace torch::nn {
class Module;
}

namespace subbyte::nn {

// Draws every parameter of two or more dimensions from N(0, std^2) and leaves vectors (norm
// weights, biases) as they are. The noise of a parameter is addressed by (seed, its ordinal), so
// the same seed gives the same model on any machine and thread count.
void initialize(torch::nn::Module& model, std::uint64_t seed, double std = 0.02);

}  // namespace subbyte::nn
