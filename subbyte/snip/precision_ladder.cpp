// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/precision_ladder.h"

#include <utility>

namespace subbyte::snip {
namespace {

std::pair<int, double> bits(const std::string& recipe, plan::Slot slot) {
    const plan::Recipe found = plan::find_recipe(recipe);
    return {found[slot].widest_bits(), found[slot].element_bits()};
}

}  // namespace

bool is_more_precise(const std::string& a, const std::string& b, plan::Slot slot) {
    return bits(a, slot) > bits(b, slot);
}

PrecisionLadder::PrecisionLadder(std::vector<std::string> options, const std::string& high)
    : recipes_(std::move(options)) {
    recipes_.push_back(high);
}

const std::string& PrecisionLadder::above(const std::string& recipe, plan::Slot slot) const {
    const std::string* next = &recipe;
    for (const std::string& candidate : recipes_) {
        if (!is_more_precise(candidate, recipe, slot)) continue;
        if (next == &recipe || is_more_precise(*next, candidate, slot)) next = &candidate;
    }
    return *next;
}

bool raise_slot(plan::Plan& plan, const std::string& layer, plan::Slot slot,
                const std::string& recipe) {
    const std::string now = plan.recipe(layer, slot);
    if (!is_more_precise(recipe, now, slot)) return false;
    const auto entry =
        plan.layers
            .try_emplace(layer,
                         std::array<std::string, 3>{plan.fallback, plan.fallback, plan.fallback})
            .first;
    entry->second[static_cast<std::size_t>(slot)] = recipe;
    return true;
}

}  // namespace subbyte::snip
