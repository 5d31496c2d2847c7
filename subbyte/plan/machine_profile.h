// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "subbyte/plan/slot.h"

namespace subbyte::plan {

// What one GEMM of a layer takes: the product itself, and quantising its two operands. All are part
// of what a recipe costs.
struct GemmSeconds {
    double product = 0, quantise_a = 0, quantise_b = 0;

    double quantise() const { return quantise_a + quantise_b; }
    double total() const { return product + quantise(); }
};

// Measured times of the recipes on one machine, for the layer shapes that were measured
// (`subbyte bench --profile`).
struct MachineProfile {
    // A linear layer in a recipe: X is tokens x in, W is out x in.
    struct Entry {
        std::string recipe;
        std::int64_t tokens = 0, in_features = 0, out_features = 0;
        std::array<GemmSeconds, 3> slots;  // indexed by Slot
        // Held by the packed copies W and W^T, and by X^T that waits for wgrad.
        double weight_bytes = 0, activation_bytes = 0;

        double seconds() const { return slots[0].total() + slots[1].total() + slots[2].total(); }
    };

    std::string cpu, isa;
    int threads = 0;
    std::vector<Entry> entries;

    struct Time {
        GemmSeconds seconds;
        bool measured = true;  // false: interpolated between shapes
    };
    // Time of one GEMM. A shape that was not measured gets the rate (seconds per multiply-add, or
    // per quantised number) that lies between those of the nearest smaller and larger measured
    // work, on a logarithmic axis; beyond the ends the rate of the end. Error kUsage for a recipe
    // that was not measured, with those that were.
    Time time(const std::string& recipe, Slot slot, std::int64_t tokens, std::int64_t in_features,
              std::int64_t out_features) const;

    std::vector<std::string> recipes() const;  // each once, in order of appearance
};

// The machine that is at hand.
struct Machine {
    std::string cpu, isa;
    int threads = 0;
};
// Error kUsage when the profile was measured on another processor, with another instruction set or
// another number of threads: its seconds say nothing about this machine.
void check_machine(const MachineProfile& profile, const Machine& here);

// {"version": 1, "kind": "machine-profile", "cpu", "isa", "threads", "entries": [{"recipe",
//  "tokens", "in_features", "out_features", "weight_bytes", "activation_bytes",
//  "seconds": {"fprop": {"product", "quantise_a", "quantise_b"}, "dgrad": ..., "wgrad": ...}}]}
nlohmann::json to_json(const MachineProfile& profile);
MachineProfile profile_from_json(const nlohmann::json& json);  // Error kData names the place

}  // namespace subbyte::plan
