// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "subbyte/train/config.h"

namespace subbyte::train {

// Where the value of a key lives. The alternative is the type of the key.
using Field =
    std::variant<std::int64_t*, double*, bool*, std::string*, StepCount*, std::array<double, 2>*,
                 std::vector<std::string>*, std::vector<std::int64_t>*>;

// What a key accepts beyond its type. Numbers: a range, whose ends may be excluded. Texts: a list
// of choices. Lists: each element.
struct Limits {
    double min = 0, max = 0;
    bool has_min = false, has_max = false, min_excluded = false, max_excluded = false;
    std::vector<std::string> (*choices)() = nullptr;
    // What else a text may be, e.g. "a path"; then choices bind only where `mistake`, which gives
    // message and hint or nothing, finds one.
    std::string_view or_else = {};
    std::pair<std::string, std::string> (*mistake)(std::string_view) = nullptr;
};

// One key of a table: path, place, limits, meaning. Owner is Config, or Config::Rule for the
// keys of one [[precision.rule]]. The default is the value in a default-constructed owner.
template <class Owner>
struct Key {
    std::string_view path;
    Field (*field)(Owner&);
    Limits limits;
    std::string_view meaning;
};

// The one list of keys, in the order of the documentation.
std::span<const Key<Config>> config_keys();
std::span<const Key<Config::Rule>> rule_keys();

inline constexpr std::string_view kRulePath = "precision.rule";

// Key by path; nullptr when there is none.
const Key<Config>* find_key(std::string_view path);

// True for "optim", "precision.snip" ...: a path with keys below it.
bool is_section(std::string_view path);
std::vector<std::string> section_names();

}  // namespace subbyte::train
