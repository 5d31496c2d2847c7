// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "subbyte/plan/layer_table.h"
#include "subbyte/plan/recipe.h"

namespace subbyte::plan {

// Precision of every layer: recipe names per GEMM slot. Pure data; a running model reads it through
// nn::Precision. Layers that are not listed use `fallback`, and so do the parts that are no layers
// (attention, what is kept for backward): "fp32" computes them in FP32, everything else in BF16.
struct Plan {
    std::string method = "uniform";  // what made it: "uniform", "snip", "random", "given", ...
    std::string fallback = "bf16";
    std::map<std::string, std::array<std::string, 3>> layers;

    const std::string& recipe(const std::string& layer, Slot slot) const;
    void set(const std::string& layer, const std::string& recipe);
    friend bool operator==(const Plan&, const Plan&) = default;
};

// "fp4", or "fp4/fp8/bf16" (fprop/dgrad/wgrad) when the GEMMs of the layer differ.
std::string recipes_text(const Plan& plan, const std::string& layer);

// Gives the pinned slots of the candidates (LayerInfo::pinned) their recipes.
void apply_pins(Plan& plan, const LayerTable& table);

// Every candidate layer of the table gets `recipe` (but pinned slots), everything else "bf16", or
// "fp32" when that is the recipe. Error kUsage for an unknown recipe.
Plan uniform_plan(const LayerTable& table, const std::string& recipe);

// Share of the planned GEMM FLOPs (see candidate_shares) whose operands are 4-bit: SNIP's
// efficiency.
double fp4_share(const Plan& plan, const LayerTable& table);

// FLOP-weighted mean element bits over the planned GEMMs; 0 when there are none.
double effective_bits(const Plan& plan, const LayerTable& table);

// Number of (layer, slot) pairs in which two plans differ.
int changed_slots(const Plan& before, const Plan& after, const LayerTable& table);

// JSON form, as saved in checkpoints and plan files:
//   {"version": 1, "method": "snip", "fallback": "bf16",
//    "layers": {"NAME": "fp4", "NAME": {"fprop": "fp4", "dgrad": "fp8", "wgrad": "bf16"}}}
// from_json checks every recipe name and, when `table` is given, every layer name. Error kData that
// names the entry, with the nearest known name.
nlohmann::json to_json(const Plan& plan);
Plan plan_from_json(const nlohmann::json& json, const LayerTable* table = nullptr);

}  // namespace subbyte::plan
