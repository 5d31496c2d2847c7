// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "subbyte/plan/plan.h"

namespace subbyte::plan {

// How much faster than BF16 ideal hardware runs a GEMM: 16 / bits of the wider operand, i.e. 1 for
// BF16, 2 for 8-bit, 4 for 4-bit elements (FP32: 0.5). A model, not a measurement.
double modelled_speed(const SlotRecipe& slot);

// Bytes that one GEMM of a layer keeps between the passes: the packed W (fprop) and W^T (dgrad),
// copies below FP32 only, and X^T that waits for wgrad (X itself when it is not quantised).
double slot_bytes(const SlotRecipe& recipe, Slot slot, const LayerInfo& layer);

struct CostOptions {
    double master_bytes = 4;     // per weight: FP32 master weights
    double gradient_bytes = 4;   // per weight
    double optimizer_bytes = 8;  // per weight: AdamW with FP32 moments
    // Parameters outside the table (embedding table, norms), in stage 0: kept in high precision.
    double other_parameters = 0;
};

// Work of one step and memory of the linear layers of a model (or of one pipeline stage). Pure
// arithmetic on shapes: tells what a model needs that is too large to run here.
struct Cost {
    double gemm_flops = 0;       // three GEMMs per layer, all layers of the table
    double candidate_flops = 0;  // of these, in GEMMs the plan may choose for
    // Time of these GEMMs in units of (FLOPs at BF16 speed).
    double modelled_time = 0, candidate_time = 0;
    double parameters = 0;
    // Bytes.
    double master_weights = 0, gradients = 0, optimizer_states = 0;
    double quantised_weights = 0;  // W for fprop and W^T for dgrad; copies below FP32 only
    double saved_activations = 0;  // packed X^T that waits for wgrad, every layer its own

    double bytes() const {
        return master_weights + gradients + optimizer_states + quantised_weights +
               saved_activations;
    }
    // Speed-up over all-BF16 on ideal hardware, 1 / sum(share / speed): of all GEMMs in the table,
    // and of the candidates alone (SNIP's bound: 2.67 at 50 % FP4 with the rest FP8, never above
    // 4). 1 without work.
    double speedup() const { return modelled_time > 0 ? gemm_flops / modelled_time : 1.0; }
    double candidate_speedup() const {
        return candidate_time > 0 ? candidate_flops / candidate_time : 1.0;
    }
    Cost& operator+=(const Cost& other);
};

struct CostEstimate {
    Cost total;
    std::vector<Cost> stages;  // per pipeline stage
};

// Error kUsage for an unknown recipe, a negative stage or a negative shape. Layers without tokens
// (not known yet) have no work and no activations.
CostEstimate estimate_cost(const Plan& plan, const LayerTable& table,
                           const CostOptions& options = {});

}  // namespace subbyte::plan
