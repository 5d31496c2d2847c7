// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "subbyte/formats/spec.h"
#include "subbyte/plan/slot.h"

namespace subbyte::plan {

// The two operands of one GEMM D = A * B^T, each quantised along the contraction axis.
//   fprop  A = X, B = W      dgrad  A = G, B = W^T      wgrad  A = G^T, B = X^T
struct SlotRecipe {
    formats::QuantSpec a, b;

    // Storage bits of an element, mean of both operands: 4, 8, 16 or 32 when they agree.
    double element_bits() const;
    // Bits of the wider operand: it decides which arithmetic can run the GEMM.
    int widest_bits() const;
    friend bool operator==(const SlotRecipe&, const SlotRecipe&) = default;
};

// How the three GEMMs of a layer are quantised; the unit a plan hands out.
struct Recipe {
    std::string name;
    std::array<SlotRecipe, 3> slots;  // indexed by Slot

    const SlotRecipe& operator[](Slot slot) const { return slots[static_cast<std::size_t>(slot)]; }
    // Storage bits of the elements of the fprop operands (mean of both): 4, 8, 16 or 32.
    double element_bits() const { return (*this)[Slot::kFprop].element_bits(); }
    // True when the GEMM of `slot` has 4-bit elements on both sides: the share that SNIP's
    // efficiency counts.
    bool is_fp4(Slot slot) const { return (*this)[slot].widest_bits() <= 4; }
    // No GEMM is quantised below BF16: the baseline that divergences are measured from.
    bool is_high_precision() const;
    friend bool operator==(const Recipe&, const Recipe&) = default;
};

// Named recipes: fp32, bf16, fp8, fp4, mxfp8, mxfp4, nvfp4, int8, int4.
//   fp8 / fp4 / int8 / int4   X and G 1x128, W 128x128, FP32 scales (SNIP, DeepSeek-V3); 4 bit:
//                             stochastic rounding on G
//   mx*     1x32 with E8M0/rceil for all operands
//   nvfp4   1x16 with UE4M3 and an FP32 second level, W 16x16; stochastic rounding on G
// And their variants, NAME.OPERAND=SPEC...: operands x, w and g, in both GEMMs that read them, get
// another spec, or only another tile: "fp4.w=1x16", "fp4.w=e2m1:1x16:ue4m3+f32.g=1x32". A variant
// is known by its text wherever a recipe is named.
// Error kUsage with the nearest name when there is none.
Recipe find_recipe(std::string_view name);
std::vector<std::string> recipe_names();  // without variants
// The error that find_recipe() would throw, message and hint; empty for a recipe.
std::pair<std::string, std::string> recipe_mistake(std::string_view name);

}  // namespace subbyte::plan
