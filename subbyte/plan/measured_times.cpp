// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/measured_times.h"

#include <algorithm>

namespace subbyte::plan {
namespace {

MeasuredTime time_of(const LayerInfo& layer, const MachineProfile& profile,
                     const std::string& recipe) {
    MeasuredTime result{.type = layer.type,
                        .recipe = recipe,
                        .layers = 1,
                        .tokens = layer.tokens,
                        .in_features = layer.in_features,
                        .out_features = layer.out_features};
    for (const Slot slot : kSlots) {
        const auto at = [&](const std::string& name) {
            return profile.time(name, slot, layer.tokens, layer.in_features, layer.out_features);
        };
        const MachineProfile::Time time = at(recipe);
        result.seconds += time.seconds.total();
        result.quantise += time.seconds.quantise();
        result.bf16_seconds += at("bf16").seconds.total();
        result.measured = time.measured;
    }
    return result;
}

}  // namespace

std::vector<MeasuredTime> measured_times(const LayerTable& table, const MachineProfile& profile,
                                         const std::vector<std::string>& recipes) {
    std::vector<MeasuredTime> result;
    for (const LayerInfo& layer : table) {
        if (!layer.candidate) continue;
        const auto same = [&](const MeasuredTime& time) {
            return time.type == layer.type && time.tokens == layer.tokens &&
                   time.in_features == layer.in_features && time.out_features == layer.out_features;
        };
        if (std::any_of(result.begin(), result.end(), same)) {
            for (MeasuredTime& time : result) time.layers += same(time) ? 1 : 0;
            continue;
        }
        for (const std::string& recipe : recipes) {
            result.push_back(time_of(layer, profile, recipe));
        }
    }
    return result;
}

}  // namespace subbyte::plan
