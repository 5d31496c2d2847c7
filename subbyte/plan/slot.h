// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace subbyte::plan {

// The three GEMMs of a linear layer. With X (T x K), W (N x K), G = dL/dY (T x N):
//   fprop  Y  = X W^T   contracts K
//   dgrad  dX = G W     contracts N
//   wgrad  dW = G^T X   contracts T
enum class Slot { kFprop, kDgrad, kWgrad };

inline constexpr std::array<Slot, 3> kSlots{Slot::kFprop, Slot::kDgrad, Slot::kWgrad};

constexpr std::string_view slot_name(Slot slot) {
    return slot == Slot::kFprop ? "fprop" : slot == Slot::kDgrad ? "dgrad" : "wgrad";
}

}  // namespace subbyte::plan
