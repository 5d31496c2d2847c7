// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "subbyte/ops/linear.h"
#include "subbyte/ops/noise_role.h"

namespace subbyte::ops {

// The six operands of a layer's three GEMMs, each quantised along its own contraction axis from the
// high-precision source. x [T, K], g = dL/dY [T, N], w [N, K]; `part` numbers the groups of rows of
// a layer that is computed in parts (< 4096), so that no noise is used twice.

inline NoiseAddress operand_noise(const LinearContext& c, plan::Slot slot, Operand operand,
                                  int micro_batch, std::uint32_t part = 0) {
    return {c.seed, c.step, c.layer | part << 20, noise_role(slot, operand, micro_batch)};
}

// The rows of X or G: operand A of fprop and dgrad.
inline QuantizedTensor quantized_rows(const at::Tensor& x, const LinearContext& c, plan::Slot slot,
                                      std::uint32_t part = 0) {
    const formats::QuantSpec& spec = (*c.recipe)[slot].a;
    if (c.inputs != nullptr && slot == plan::Slot::kFprop && !spec.uses_noise()) {
        return c.inputs->get(x, false, spec);
    }
    return quantize(x, spec, operand_noise(c, slot, Operand::kA, c.micro_batch, part));
}

// G^T (operand A) or X^T (operand B) of wgrad, packed along T.
inline QuantizedTensor quantized_columns(const at::Tensor& x, const LinearContext& c,
                                         Operand operand, std::uint32_t part = 0) {
    const plan::SlotRecipe& recipe = (*c.recipe)[plan::Slot::kWgrad];
    const formats::QuantSpec& spec = operand == Operand::kA ? recipe.a : recipe.b;
    if (c.inputs != nullptr && operand == Operand::kB && !spec.uses_noise()) {
        return c.inputs->get(x, true, spec);
    }
    return quantize(x.t(), spec,
                    operand_noise(c, plan::Slot::kWgrad, operand, c.micro_batch, part));
}

// The weight: W along K for fprop, W^T along N for dgrad. One copy serves all micro-batches.
inline QuantizedTensor quantized_weight(const at::Tensor& w, const LinearContext& c,
                                        plan::Slot slot) {
    const bool transposed = slot == plan::Slot::kDgrad;
    const formats::QuantSpec& spec = (*c.recipe)[slot].b;
    const NoiseAddress noise = operand_noise(c, slot, Operand::kB, 0);
    if (c.cache != nullptr) return c.cache->get(w, transposed, spec, noise);
    return quantize(transposed ? w.detach().t() : w.detach(), spec, noise);
}

}  // namespace subbyte::ops
