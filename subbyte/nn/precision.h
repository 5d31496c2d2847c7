// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "subbyte/ops/kept_activation.h"
#include "subbyte/ops/linear_observer.h"
#include "subbyte/plan/layer_table.h"
#include "subbyte/plan/plan.h"

namespace subbyte::nn {

// The one place where a running model learns its precision. Every quantised layer of a model holds
// a pointer to the same Precision and asks it at each forward pass; changing the plan is a table
// update between two steps and touches no weight.
class Precision {
public:
    // Adds a layer; its ordinal addresses noise and is what observers see. Error kUsage when the
    // name is taken.
    std::uint32_t add_layer(plan::LayerInfo info);

    const plan::LayerTable& table() const { return table_; }
    bool has_layer(const std::string& name) const { return index_.contains(name); }
    std::uint32_t layer_index(const std::string& name) const;  // Error kUsage with the nearest name
    // Rows of X of one optimizer step; filled by the layers as they run.
    void set_tokens(std::uint32_t layer, std::int64_t tokens) { table_[layer].tokens = tokens; }
    // These slots keep their recipes whatever plan comes (head, rules); "": the plan's. A layer
    // that has all three fixed is no candidate.
    void fix_layer(std::uint32_t layer, const std::array<std::string, 3>& recipes);
    void fix_layer(std::uint32_t layer, const std::string& recipe) {
        fix_layer(layer, std::array<std::string, 3>{recipe, recipe, recipe});
    }
    void free_layer(std::uint32_t layer) { fix_layer(layer, std::array<std::string, 3>{}); }

    // Puts a plan in force, with the slots that are fixed as they are (see apply_pins()). Error
    // kUsage for unknown recipes or layers; the old plan then stays.
    void set_plan(const plan::Plan& plan);
    const plan::Plan& plan() const { return plan_; }
    std::shared_ptr<const plan::Recipe> recipe(std::uint32_t layer) const {
        return recipes_[layer];
    }

    // Whether anything is computed below FP32.
    bool compact() const { return plan_.fallback != "fp32"; }
    // What the ops between the linear layers keep for backward.
    ops::Keep keep() const {
        return kept.value_or(compact() ? ops::Keep::kBf16 : ops::Keep::kFp32);
    }
    std::optional<ops::Keep> kept;  // set: whatever the plan is

    // Noise address parts of the step that is being computed.
    std::uint64_t seed = 0;
    std::uint32_t step = 0;
    int micro_batch = 0;

    ops::LinearObserver* observer = nullptr;
    bool discarded = false;  // the forward pass that runs will be computed again, see recompute()

private:
    plan::LayerTable table_;
    plan::Plan plan_ = {.method = "uniform", .fallback = "fp32", .layers = {}};
    std::vector<std::shared_ptr<const plan::Recipe>> recipes_;
    std::unordered_map<std::string, std::uint32_t> index_;
};

}  // namespace subbyte::nn
