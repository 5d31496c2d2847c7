// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/efficiency.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"
#include "subbyte/plan/cost_model.h"

namespace subbyte::plan {
namespace {

constexpr std::array kMeasures{Efficiency::kFp4Share, Efficiency::kTimeSaved, Efficiency::kSeconds,
                               Efficiency::kBytes};

bool needs_shapes(Efficiency measure) {
    return measure == Efficiency::kSeconds || measure == Efficiency::kBytes;
}

void check(const LayerTable& table, Efficiency measure, const MachineProfile* profile) {
    if (!needs_shapes(measure)) return;
    if (measure == Efficiency::kSeconds && profile == nullptr) {
        throw Error(ErrorCode::kUsage, "efficiency 'seconds' needs a machine profile",
                    "measure one with subbyte bench --profile FILE, then give --profile FILE");
    }
    for (const LayerInfo& layer : table) {
        if (!layer.candidate || (layer.tokens > 0 && layer.weights() > 0)) continue;
        throw Error(ErrorCode::kUsage,
                    fmt::format("efficiency '{}': layer '{}' has {} tokens and {} x {} weights",
                                efficiency_name(measure), layer.name, layer.tokens,
                                layer.out_features, layer.in_features),
                    "seconds and bytes belong to shapes that are known");
    }
}

}  // namespace

std::string_view efficiency_name(Efficiency measure) {
    switch (measure) {
        case Efficiency::kFp4Share: return "fp4-share";
        case Efficiency::kTimeSaved: return "time-saved";
        case Efficiency::kSeconds: return "seconds";
        case Efficiency::kBytes: break;
    }
    return "bytes";
}

std::vector<std::string> efficiency_names() {
    std::vector<std::string> names;
    for (const Efficiency measure : kMeasures) names.emplace_back(efficiency_name(measure));
    return names;
}

Efficiency efficiency_from_name(std::string_view name) {
    for (const Efficiency measure : kMeasures) {
        if (name == efficiency_name(measure)) return measure;
    }
    throw Error(ErrorCode::kUsage, fmt::format("unknown measure of efficiency '{}'", name),
                nearest_hint(name, efficiency_names()));
}

double slot_efficiency(const Recipe& recipe, Slot slot, Efficiency measure) {
    if (measure == Efficiency::kFp4Share) return recipe.is_fp4(slot) ? 1.0 : 0.0;
    return std::max(0.0, 1.0 - 1.0 / modelled_speed(recipe[slot]));
}

EfficiencyModel::EfficiencyModel(const LayerTable& table, Efficiency measure,
                                 const MachineProfile* profile)
    : table_(table), measure_(measure), profile_(profile), work_(table.size()) {
    check(table, measure, profile);
    if (needs_shapes(measure)) {
        const Recipe bf16 = find_recipe("bf16");
        total_ = 0;
        for (std::size_t i = 0; i < table.size(); ++i) {
            for (const Slot slot : kSlots) {
                if (!table[i].plans(slot)) continue;
                const double work = amount(i, slot, bf16);
                work_[i][static_cast<std::size_t>(slot)] = work;
                total_ += work;
            }
        }
        if (total_ > 0) {
            for (auto& layer : work_) {
                for (double& work : layer) work /= total_;
            }
        }
        return;
    }
    const std::vector<double> shares = candidate_shares(table);
    double flops = 0;
    for (std::size_t i = 0; i < table.size(); ++i) {
        const int slots = table[i].planned_slots();
        for (const Slot slot : kSlots) {
            if (table[i].plans(slot)) work_[i][static_cast<std::size_t>(slot)] = shares[i] / slots;
        }
        flops += slots * table[i].slot_flops();
    }
    if (flops > 0) total_ = flops;
}

// Seconds or bytes.
double EfficiencyModel::amount(std::size_t layer, Slot slot, const Recipe& recipe) const {
    const LayerInfo& info = table_[layer];
    if (measure_ == Efficiency::kBytes) return slot_bytes(recipe[slot], slot, info);
    return profile_->time(recipe.name, slot, info.tokens, info.in_features, info.out_features)
        .seconds.total();
}

double EfficiencyModel::work(std::size_t layer, Slot slot) const {
    return work_[layer][static_cast<std::size_t>(slot)];
}

double EfficiencyModel::saved(std::size_t layer, Slot slot, const Recipe& recipe) const {
    if (!table_[layer].plans(slot)) return 0.0;
    const double work = this->work(layer, slot);
    if (!needs_shapes(measure_)) return work * slot_efficiency(recipe, slot, measure_);
    return total_ > 0 ? work - amount(layer, slot, recipe) / total_ : 0.0;
}

std::vector<std::string> EfficiencyModel::interpolated() const {
    std::vector<std::string> shapes;
    if (measure_ != Efficiency::kSeconds) return shapes;
    for (const LayerInfo& layer : table_) {
        if (!layer.candidate ||
            profile_
                ->time("bf16", Slot::kFprop, layer.tokens, layer.in_features, layer.out_features)
                .measured) {
            continue;
        }
        std::string shape =
            fmt::format("{}x{}x{}", layer.tokens, layer.in_features, layer.out_features);
        if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) {
            shapes.push_back(std::move(shape));
        }
    }
    return shapes;
}

}  // namespace subbyte::plan
