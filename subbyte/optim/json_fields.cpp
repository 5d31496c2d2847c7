// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/optim/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "subbyte/core/nearest.h"

namespace subbyte::optim {

JsonFields::JsonFields(const nlohmann::json& object, std::string where, ErrorCode code)
    : object_(object), where_(std::move(where)), code_(code) {
    if (!object.is_object()) throw Error(code, fmt::format("{}: not a JSON object", where_));
}

void JsonFields::note(const std::string& key) {
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.push_back(key);
}

const nlohmann::json& JsonFields::get(const std::string& key) {
    note(key);
    const auto found = object_.find(key);
    if (found == object_.end()) throw Error(code_, fmt::format("{}: '{}' is missing", where_, key));
    return *found;
}

void JsonFields::refuse(const std::string& key, const std::string& expected) const {
    throw Error(code_, fmt::format("{}: '{}' is {}, must be {}", where_, key,
                                   object_.at(key).dump(), expected));
}

double JsonFields::number(const std::string& key) {
    const nlohmann::json& value = get(key);
    if (!value.is_number() || !std::isfinite(value.get<double>())) refuse(key, "a finite number");
    return value.get<double>();
}

std::int64_t JsonFields::count(const std::string& key) {
    const nlohmann::json& value = get(key);
    const bool fits =
        value.is_number_unsigned()
            ? value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()}
            : value.is_number_integer() && value.get<std::int64_t>() >= 0;
    if (!fits) refuse(key, "an integer of at least 0");
    return value.get<std::int64_t>();
}

bool JsonFields::flag(const std::string& key) {
    const nlohmann::json& value = get(key);
    if (!value.is_boolean()) refuse(key, "true or false");
    return value.get<bool>();
}

std::string JsonFields::text(const std::string& key) {
    const nlohmann::json& value = get(key);
    if (!value.is_string()) refuse(key, "a text");
    return value.get<std::string>();
}

std::array<double, 2> JsonFields::pair(const std::string& key) {
    const nlohmann::json& value = get(key);
    if (!value.is_array() || value.size() != 2 || !value[0].is_number() || !value[1].is_number()) {
        refuse(key, "two numbers");
    }
    return {value[0].get<double>(), value[1].get<double>()};
}

const nlohmann::json& JsonFields::object(const std::string& key) {
    const nlohmann::json& value = get(key);
    if (!value.is_object()) refuse(key, "an object");
    return value;
}

void JsonFields::read(const std::string& key, double& value) {
    note(key);
    if (has(key)) value = number(key);
}

void JsonFields::read(const std::string& key, std::int64_t& value) {
    note(key);
    if (has(key)) value = count(key);
}

void JsonFields::read(const std::string& key, bool& value) {
    note(key);
    if (has(key)) value = flag(key);
}

void JsonFields::read(const std::string& key, std::string& value) {
    note(key);
    if (has(key)) value = text(key);
}

void JsonFields::read(const std::string& key, std::array<double, 2>& value) {
    note(key);
    if (has(key)) value = pair(key);
}

void JsonFields::finish() const {
    for (const auto& [key, value] : object_.items()) {
        if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) {
            throw Error(code_, fmt::format("{}: unknown key '{}'", where_, key),
                        nearest_hint(key, asked_));
        }
    }
}

}  // namespace subbyte::optim
