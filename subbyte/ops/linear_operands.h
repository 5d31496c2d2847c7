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

inline QuantizedCopy rows_copy(const LinearContext& c, plan::Slot slot, std::uint32_t part) {
    return {(*c.recipe)[slot].a, operand_noise(c, slot, Operand::kA, c.micro_batch, part)};
}

inline QuantizedCopy columns_copy(const LinearContext& c, Operand operand, std::uint32_t part) {
    const plan::SlotRecipe& recipe = (*c.recipe)[plan::Slot::kWgrad];
    return {operand == Operand::kA ? recipe.a : recipe.b,
            operand_noise(c, plan::Slot::kWgrad, operand, c.micro_batch, part)};
}

// X for fprop and, where `for_wgrad`, X^T for wgrad, packed along T. X of c.inputs, where that is
// there, and not `x`.
inline QuantizedPair quantized_input(const at::Tensor& x, const LinearContext& c, bool for_wgrad,
                                     std::uint32_t part = 0) {
    const QuantizedCopy rows = rows_copy(c, plan::Slot::kFprop, part);
    const QuantizedCopy columns = columns_copy(c, Operand::kB, part);
    if (c.inputs != nullptr) return c.inputs->get(rows, for_wgrad ? &columns : nullptr);
    if (for_wgrad) return quantize_both(x, rows, columns);
    return {quantize(x, rows.spec, rows.noise), {}};
}

// G for dgrad, G^T for wgrad, packed along T, or one of them.
inline QuantizedPair quantized_gradient(const at::Tensor& g, const LinearContext& c, bool for_dgrad,
                                        bool for_wgrad, std::uint32_t part = 0) {
    const QuantizedCopy rows = rows_copy(c, plan::Slot::kDgrad, part);
    const QuantizedCopy columns = columns_copy(c, Operand::kA, part);
    if (for_dgrad && for_wgrad) return quantize_both(g, rows, columns);
    QuantizedPair pair;
    if (for_dgrad) pair.rows = quantize(g, rows.spec, rows.noise);
    if (for_wgrad) pair.columns = quantize(g.t(), columns.spec, columns.noise);
    return pair;
}

// The weight: W along K for fprop, W^T along N for dgrad. One copy serves all micro-batches; where
// the other one will be wanted too (`both`), the cache gets both from one pass.
inline QuantizedTensor quantized_weight(const at::Tensor& w, const LinearContext& c,
                                        plan::Slot slot, bool both = false) {
    const auto copy = [&](plan::Slot of) {
        return QuantizedCopy{(*c.recipe)[of].b, operand_noise(c, of, Operand::kB, 0)};
    };
    const QuantizedCopy rows = copy(plan::Slot::kFprop), columns = copy(plan::Slot::kDgrad);
    const bool transposed = slot == plan::Slot::kDgrad;
    if (c.cache != nullptr) {
        if (both) c.cache->make_both(w, rows, columns);
        return c.cache->get(w, transposed, transposed ? columns : rows);
    }
    return transposed ? quantize(w.detach().t(), columns.spec, columns.noise)
                      : quantize(w.detach(), rows.spec, rows.noise);
}

}  // namespace subbyte::ops
