// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subbyte/models/llama.h"
#include "subbyte/nn/precision.h"
#include "subbyte/optim/optimizer.h"
#include "subbyte/train/config.h"
#include "subbyte/train/listener.h"

namespace subbyte::train {

// The part of RunStart that model, optimizer and machine tell.
RunStart describe_start(const Config& config, models::LlamaImpl& model,
                        const optim::Optimizer& optimizer, const nn::Precision& precision,
                        int threads);

// Which GEMM kernels ran since reset_kernel_counts(): one line per kernel and pair of elements,
// with its share of all multiply-adds and whether it was native or emulated.
std::vector<std::string> kernel_counts();
void reset_kernel_counts();

// Largest resident set of this process so far, in bytes.
double peak_memory_bytes();

}  // namespace subbyte::train
