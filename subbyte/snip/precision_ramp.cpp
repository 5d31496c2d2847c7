// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/snip/precision_ramp.h"

#include <algorithm>

#include "subbyte/snip/precision_ladder.h"

namespace subbyte::snip {

std::int64_t PrecisionRamp::phase(std::int64_t step) const {
    if (steps <= 0 || step >= start + steps) return kPhases;
    return 1 + std::max<std::int64_t>(0, step - start) * kPhases / steps;
}

int PrecisionRamp::apply(std::int64_t step, const plan::LayerTable& table,
                         const std::vector<double>& damage, plan::Plan& plan) const {
    const std::vector<double> shares = plan::candidate_shares(table);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (table[i].candidate) order.push_back(i);
    }
    if (phase(step) == kPhases) return static_cast<int>(order.size());
    const auto rate = [&](std::size_t i) {
        return damage.empty() || shares[i] == 0 ? 0.0 : damage[i] / shares[i];
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return rate(a) < rate(b); });
    const double allowed = static_cast<double>(phase(step)) / static_cast<double>(kPhases);
    double reached = 0;
    int following = 0;
    for (const std::size_t i : order) {
        reached += shares[i];
        if (following == 0 || reached <= allowed * (1 + 1e-9)) {
            ++following;
            continue;
        }
        for (const plan::Slot slot : plan::kSlots) raise_slot(plan, table[i].name, slot, high);
        reached = 2;  // the layers after it wait too: they do more damage
    }
    return following;
}

void ForwardTail::apply(std::int64_t step, const plan::LayerTable& table, plan::Plan& plan) const {
    if (!holds(step)) return;
    for (const plan::LayerInfo& layer : table) {
        if (layer.candidate) raise_slot(plan, layer.name, plan::Slot::kFprop, recipe);
    }
}

}  // namespace subbyte::snip
