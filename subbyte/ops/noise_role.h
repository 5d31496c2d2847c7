// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "subbyte/plan/slot.h"

namespace subbyte::ops {

enum class Operand { kA, kB };

// A step has at most so many micro-batches: the role of a noise address holds 12 bits of the
// number.
inline constexpr int kMaxMicroBatches = 4096;

// The `role` of a noise address: which operand of which GEMM slot, in which micro-batch of the step
// (weights use 0, because one quantised copy serves all micro-batches).
constexpr std::uint16_t noise_role(plan::Slot slot, Operand operand, int micro_batch) {
    const int operand_id = 2 * static_cast<int>(slot) + static_cast<int>(operand);
    return static_cast<std::uint16_t>(operand_id | ((micro_batch & (kMaxMicroBatches - 1)) << 4));
}

// Roles above the operand ids: other users of addressed noise within a layer.
inline constexpr std::uint16_t kProbeForwardRole = 8;
inline constexpr std::uint16_t kProbeBackwardRole = 9;
inline constexpr std::uint16_t kSampledLabelRole = 10;

}  // namespace subbyte::ops
