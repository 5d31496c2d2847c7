// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "subbyte/models/llama_config.h"
#include "subbyte/nn/precision.h"

namespace subbyte::train {

// What a training step will need, in bytes, said before the first one. `resident` is what the
// process holds already (libraries, data, weights); the rest comes on top of it.
struct MemoryPlan {
    double resident = 0;
    double gradients = 0;
    double states = 0;          // of the optimizer, as far as they are not there yet
    double packed_weights = 0;  // W for fprop and W^T for dgrad
    double activations = 0;     // kept from forward to backward, all blocks
    double head = 0;            // one group of rows of logits, their gradient, the head's gradient
    double block = 0;           // what backward holds while it is in one block
    double listening = 0;       // what a measuring step has beside it: copies to take errors of
    // Of the passes that follow a measuring step, all that they hold, the gradients of the step
    // with it; 0 without them. They run in BF16 on a part of a micro-batch.
    double probes = 0;
    double small_probes = 0;  // of this what the step's memory cannot be used for
    double scratch = 0;       // panels of the GEMMs; code and stacks that the first step touches

    // Backward frees activations as it makes gradients: the peak is at the head, or at the end; or
    // it is in the passes of a measurement.
    double peak() const;
};

// What SNIP's measuring steps do.
struct MeasuringShape {
    std::int64_t probe_rows = 0;  // tokens of a noise pass; 0: none
    std::int64_t drawn_rows = 0;  // tokens whose labels are drawn; 0: none
    bool keeps_inputs = false;    // X of every layer, until its backward pass
    bool noise_guard = false;
};

struct MemoryShape {
    std::int64_t rows = 0;  // tokens of a micro-batch
    bool recompute = false;
    bool in_backward = false;  // gradients are released one by one
    double states = 0;         // bytes of the optimizer's state that do not exist yet
    std::optional<MeasuringShape> measuring{};  // none: the run never measures
};

MemoryPlan plan_memory(const models::LlamaConfig& config, const nn::Precision& precision,
                       const MemoryShape& shape);

// Resident set of this process now, in bytes.
double resident_memory_bytes();

}  // namespace subbyte::train
