// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/machine_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "subbyte/plan/json_reader.h"
#include "subbyte/plan/recipe.h"

namespace subbyte::plan {
namespace {

using Entry = MachineProfile::Entry;

constexpr std::int64_t kMostSize = std::int64_t{1} << 40;

// Numbers that each part of a GEMM works on.
struct Work {
    double product, a, b;
};

Work work_of(Slot slot, double tokens, double in, double out) {
    const double x = tokens * in, w = in * out, g = tokens * out, product = tokens * in * out;
    switch (slot) {
        case Slot::kFprop: return {product, x, w};
        case Slot::kDgrad: return {product, g, w};
        case Slot::kWgrad: break;
    }
    return {product, g, x};
}

// Mean seconds per unit of work, by the amount of work.
using Rates = std::map<double, double>;

double interpolate(const Rates& rates, double work) {
    const auto above = rates.lower_bound(work);
    if (above == rates.end()) return work * std::prev(above)->second;
    if (above == rates.begin() || above->first == work) return work * above->second;
    const auto below = std::prev(above);
    const double part = std::log(work / below->first) / std::log(above->first / below->first);
    return work * (below->second + part * (above->second - below->second));
}

Rates rates_of(const std::vector<const Entry*>& entries, Slot slot, double GemmSeconds::*part,
               double Work::*amount) {
    std::map<double, std::pair<double, int>> sums;
    for (const Entry* entry : entries) {
        const double work = work_of(slot, static_cast<double>(entry->tokens),
                                    static_cast<double>(entry->in_features),
                                    static_cast<double>(entry->out_features)).*
                            amount;
        auto& [sum, count] = sums[work];
        sum += entry->slots[static_cast<std::size_t>(slot)].*part / work;
        ++count;
    }
    Rates rates;
    for (const auto& [work, sum] : sums) rates[work] = sum.first / sum.second;
    return rates;
}

Entry read_entry(const JsonReader& reader) {
    reader.allow({"recipe", "tokens", "in_features", "out_features", "seconds", "weight_bytes",
                  "activation_bytes"});
    Entry entry;
    entry.recipe = reader["recipe"].text();
    const auto& [mistake, hint] = recipe_mistake(entry.recipe);
    if (!mistake.empty()) reader["recipe"].fail(mistake, hint);
    entry.tokens = reader["tokens"].integer(1, kMostSize);
    entry.in_features = reader["in_features"].integer(1, kMostSize);
    entry.out_features = reader["out_features"].integer(1, kMostSize);
    entry.weight_bytes = reader["weight_bytes"].number(0);
    entry.activation_bytes = reader["activation_bytes"].number(0);
    const JsonReader seconds = reader["seconds"];
    seconds.allow({"fprop", "dgrad", "wgrad"});
    for (const Slot slot : kSlots) {
        const JsonReader part = seconds[std::string(slot_name(slot))];
        part.allow({"product", "quantise_a", "quantise_b"});
        GemmSeconds& gemm = entry.slots[static_cast<std::size_t>(slot)];
        gemm.product = part["product"].number(0);
        gemm.quantise_a = part["quantise_a"].number(0);
        gemm.quantise_b = part["quantise_b"].number(0);
    }
    return entry;
}

}  // namespace

MachineProfile::Time MachineProfile::time(const std::string& recipe, Slot slot, std::int64_t tokens,
                                          std::int64_t in_features,
                                          std::int64_t out_features) const {
    std::vector<const Entry*> measured;
    for (const Entry& entry : entries) {
        if (entry.recipe != recipe) continue;
        if (entry.tokens == tokens && entry.in_features == in_features &&
            entry.out_features == out_features) {
            return {entry.slots[static_cast<std::size_t>(slot)], true};
        }
        measured.push_back(&entry);
    }
    if (measured.empty()) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("the machine profile holds no times of recipe '{}'", recipe),
                    fmt::format("measured: {}; measure again with this one among --recipes",
                                fmt::join(recipes(), ", ")));
    }
    const Work work = work_of(slot, static_cast<double>(tokens), static_cast<double>(in_features),
                              static_cast<double>(out_features));
    const auto part = [&](double GemmSeconds::*seconds, double Work::*amount) {
        return interpolate(rates_of(measured, slot, seconds, amount), work.*amount);
    };
    return {{.product = part(&GemmSeconds::product, &Work::product),
             .quantise_a = part(&GemmSeconds::quantise_a, &Work::a),
             .quantise_b = part(&GemmSeconds::quantise_b, &Work::b)},
            false};
}

std::vector<std::string> MachineProfile::recipes() const {
    std::vector<std::string> names;
    for (const Entry& entry : entries) {
        if (std::find(names.begin(), names.end(), entry.recipe) == names.end()) {
            names.push_back(entry.recipe);
        }
    }
    return names;
}

void check_machine(const MachineProfile& profile, const Machine& here) {
    const auto differ = [](const std::string& what, const auto& there, const auto& now) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("the machine profile was measured with {} {}, here it is {}", what,
                                there, now),
                    "measure this machine: subbyte bench --profile FILE; or take the numbers as "
                    "they are with --foreign-profile");
    };
    if (profile.cpu != here.cpu) differ("processor", profile.cpu, here.cpu);
    if (profile.isa != here.isa) differ("instruction set", profile.isa, here.isa);
    if (profile.threads != here.threads) differ("threads", profile.threads, here.threads);
}

nlohmann::json to_json(const MachineProfile& profile) {
    nlohmann::json json{
        {"version", 1},       {"kind", "machine-profile"},  {"cpu", profile.cpu},
        {"isa", profile.isa}, {"threads", profile.threads}, {"entries", nlohmann::json::array()}};
    for (const Entry& entry : profile.entries) {
        nlohmann::json seconds;
        for (const Slot slot : kSlots) {
            const GemmSeconds& gemm = entry.slots[static_cast<std::size_t>(slot)];
            seconds[std::string(slot_name(slot))] = {{"product", gemm.product},
                                                     {"quantise_a", gemm.quantise_a},
                                                     {"quantise_b", gemm.quantise_b}};
        }
        json["entries"].push_back({{"recipe", entry.recipe},
                                   {"tokens", entry.tokens},
                                   {"in_features", entry.in_features},
                                   {"out_features", entry.out_features},
                                   {"weight_bytes", entry.weight_bytes},
                                   {"activation_bytes", entry.activation_bytes},
                                   {"seconds", std::move(seconds)}});
    }
    return json;
}

MachineProfile profile_from_json(const nlohmann::json& json) {
    const JsonReader reader(json, "machine profile");
    reader.allow({"version", "kind", "cpu", "isa", "threads", "entries"});
    if (reader["kind"].text() != "machine-profile") {
        reader["kind"].fail("\"machine-profile\" expected",
                            "subbyte bench --profile FILE writes one");
    }
    reader["version"].integer(1, 1);
    MachineProfile profile;
    profile.cpu = reader["cpu"].text();
    profile.isa = reader["isa"].text();
    profile.threads = static_cast<int>(reader["threads"].integer(1, 1 << 20));
    const JsonReader entries = reader["entries"];
    for (std::size_t i = 0; i < entries.size(); ++i) {
        profile.entries.push_back(read_entry(entries[i]));
    }
    if (profile.entries.empty()) entries.fail("nothing was measured");
    return profile;
}

}  // namespace subbyte::plan
