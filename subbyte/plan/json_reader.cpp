// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"

namespace subbyte::plan {
namespace {

bool in_range(double number, double least) { return std::isfinite(number) && number >= least; }

}  // namespace

JsonReader::JsonReader(const nlohmann::json& value, std::string what, ErrorCode code)
    : JsonReader(value, std::move(what), code, {}) {}

JsonReader::JsonReader(const nlohmann::json& value, std::string what, ErrorCode code,
                       std::string place)
    : value_(value), what_(std::move(what)), code_(code), place_(std::move(place)) {}

void JsonReader::fail(const std::string& message, const std::string& hint) const {
    throw Error(code_,
                place_.empty() ? fmt::format("{}: {}", what_, message)
                               : fmt::format("{}: {}: {}", what_, place_, message),
                hint);
}

void JsonReader::expect(bool condition, const char* kind) const {
    if (condition) return;
    const std::string found =
        value_.is_structured()
            ? value_.type_name()
            : value_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).substr(0, 60);
    fail(fmt::format("{} expected, found {}", kind, found));
}

std::vector<std::string> JsonReader::keys() const {
    expect(value_.is_object(), "an object");
    std::vector<std::string> names;
    for (const auto& member : value_.items()) names.push_back(member.key());
    return names;
}

void JsonReader::allow(const std::vector<std::string>& known) const {
    for (const std::string& key : keys()) {
        if (std::find(known.begin(), known.end(), key) == known.end()) {
            fail(fmt::format("unknown key '{}'", key), nearest_hint(key, known));
        }
    }
}

bool JsonReader::has(const std::string& key) const {
    expect(value_.is_object(), "an object");
    return value_.contains(key);
}

JsonReader JsonReader::operator[](const std::string& key) const {
    if (!has(key)) fail(fmt::format("'{}' is missing", key));
    return {value_[key], what_, code_, place_.empty() ? key : fmt::format("{}.{}", place_, key)};
}

std::size_t JsonReader::size() const {
    expect(value_.is_array(), "an array");
    return value_.size();
}

JsonReader JsonReader::operator[](std::size_t index) const {
    if (index >= size()) fail(fmt::format("{} entries, at least {} expected", size(), index + 1));
    return {value_[index], what_, code_, fmt::format("{}[{}]", place_, index)};
}

std::vector<double> JsonReader::numbers(double least) const {
    std::vector<double> values(size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        const nlohmann::json& entry = value_[i];
        values[i] = entry.is_number() ? entry.get<double>() : 0.0;
        if (!entry.is_number() || !in_range(values[i], least))
            (*this)[i].number(least);  // complains
    }
    return values;
}

double JsonReader::number(double least) const {
    expect(value_.is_number(), "a number");
    const double number = value_.get<double>();
    if (!in_range(number, least))
        fail(fmt::format("{} found, at least {} expected", number, least));
    return number;
}

std::int64_t JsonReader::integer(std::int64_t least, std::int64_t most) const {
    expect(value_.is_number_integer(), "a whole number");
    const bool too_large = value_.is_number_unsigned() &&
                           value_.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
    const std::int64_t number = too_large ? INT64_MAX : value_.get<std::int64_t>();
    if (too_large || number < least || number > most) {
        fail(fmt::format("{} is not in {} .. {}", value_.dump(), least, most));
    }
    return number;
}

bool JsonReader::boolean() const {
    expect(value_.is_boolean(), "true or false");
    return value_.get<bool>();
}

const std::string& JsonReader::text() const {
    expect(value_.is_string(), "a text");
    return value_.get_ref<const std::string&>();
}

}  // namespace subbyte::plan
