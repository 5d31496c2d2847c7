// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "subbyte/plan/layer_table.h"
#include "subbyte/plan/machine_profile.h"
#include "subbyte/plan/recipe.h"

namespace subbyte::plan {

// What a plan must save, as a share of what the candidates' GEMMs take in BF16.
enum class Efficiency {
    kFp4Share,   // FLOPs with 4-bit operands (SNIP). 8 bit saves nothing, so BF16 beats FP8 when
                 // both are options: with this measure name either of them beside FP4, not both
    kTimeSaved,  // BF16 time saved on ideal hardware, see modelled_speed: 8 bit 1/2, 4 bit 3/4
    kSeconds,    // seconds saved as measured on a machine, quantising included; can be negative
    kBytes,      // bytes saved in the packed copies of W and W^T and in the saved X^T
};

// "fp4-share", "time-saved", "seconds", "bytes"; efficiency_from_name is the inverse (Error kUsage
// with the nearest).
std::string_view efficiency_name(Efficiency measure);
std::vector<std::string> efficiency_names();
Efficiency efficiency_from_name(std::string_view name);

// The share that `recipe` saves of a BF16 GEMM by a measure that needs no shape (fp4-share,
// time-saved), 0 .. 1.
double slot_efficiency(const Recipe& recipe, Slot slot, Efficiency measure);

// Work and savings of every GEMM of a table, in shares of all candidates' work in BF16.
class EfficiencyModel {
public:
    // `profile` is needed for kSeconds only. Both tables and profiles must outlive the model.
    // Errors kUsage: kSeconds without a profile or BF16 times; kSeconds and kBytes when a
    // candidate's tokens are not known yet.
    EfficiencyModel(const LayerTable& table, Efficiency measure, const MachineProfile* profile);

    // What the GEMM takes in BF16; 0 for one that no plan chooses for. Sum over all of them: 1.
    double work(std::size_t layer, Slot slot) const;
    // How much less it takes in `recipe`. Error kUsage for a recipe that was not measured.
    double saved(std::size_t layer, Slot slot, const Recipe& recipe) const;

    // Work of all candidates in units of the measure: FLOPs, seconds or bytes; 1 when no tokens are
    // known.
    double total() const { return total_; }
    // Shapes that a profile has no times for.
    std::vector<std::string> interpolated() const;

private:
    double amount(std::size_t layer, Slot slot, const Recipe& recipe) const;

    const LayerTable& table_;
    Efficiency measure_;
    const MachineProfile* profile_;
    std::vector<std::array<double, 3>> work_;
    double total_ = 1;
};

}  // namespace subbyte::plan
