// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "subbyte/ops/kept_activation.h"
#include "subbyte/plan/machine_profile.h"

namespace subbyte::bench {

// Each measures one thing of ours and, in the same run and on the same threads, what LibTorch does
// instead in FP32 and BF16. The result is one JSON object: what was measured (`seconds`, and rates
// that belong to it), `fp32_seconds`, `bf16_seconds`, the ratios `vs_fp32` and `vs_bf16` (how many
// times faster than LibTorch; medians over rounds), `kernel`, and `cpu`, `isa`, `threads`.
// Random numbers, fixed seed. Errors: kUsage for unknown names and sizes below 1.

struct Effort {
    double seconds = 3;        // go on for this long
    int least_rounds = 5;      // and at least so often
    std::int64_t threads = 0;  // 0: as LibTorch finds best
};

// One product D (M x N) = A (M x K) * B (N x K)^T of packed operands. Without `b_spec`, `a_spec`
// may be the name of a recipe (A and B are its X and W) or a spec for both sides, with square tiles
// for B where A has 1x128 or 1x16 (as weights have).
struct GemmShape {
    std::int64_t m = 1024, n = 1024, k = 1024;
};
nlohmann::json bench_gemm(const std::string& a_spec, const std::string& b_spec,
                          const GemmShape& shape, const Effort& effort);

// A linear layer forward and backward: quantisation of all operands and three GEMMs. The weight is
// quantised anew each time, as in a step with one micro-batch. LibTorch's BF16 casts X and W and
// gets dW in FP32, as autocast does.
struct LayerShape {
    std::int64_t tokens = 1024, in = 1024, out = 1024;
};
nlohmann::json bench_layer(const std::string& recipe, const LayerShape& shape,
                           const Effort& effort);

// Times of the three GEMMs of layers of these shapes in every recipe (BF16 is always among them),
// with the quantising of each operand by itself, and the bytes that the packed copies hold.
// effort.seconds counts per shape. What a planner needs to know about a machine.
plan::MachineProfile measure_profile(const std::vector<LayerShape>& shapes,
                                     const std::vector<std::string>& recipes, const Effort& effort);

// Quantising an FP32 matrix: rows as they lie, and its transpose.
nlohmann::json bench_quantize(const std::string& spec, std::int64_t rows, std::int64_t cols,
                              const Effort& effort);

// A training step of a LLaMA preset (forward, backward, AdamW) on one batch of random tokens: ours
// in `recipe` with the head in `head`, LibTorch's in FP32, BF16 autocast and pure BF16. `alone`:
// ours only, so that `peak_bytes`, the peak resident memory of the process, is ours too. `loss` is
// that of our last step.
struct StepShape {
    std::int64_t batch = 8, tokens = 256;
    bool recompute = false;                  // ours computes each block again in backward
    bool in_backward = false;                // ours updates each weight inside backward
    std::optional<ops::Keep> activations{};  // what ours keeps between layers; as the recipe
};
nlohmann::json bench_step(const std::string& recipe, const std::string& head,
                          const std::string& preset, const StepShape& shape, bool alone,
                          const Effort& effort);

}  // namespace subbyte::bench
