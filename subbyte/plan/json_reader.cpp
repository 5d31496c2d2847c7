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

JsonReader::JsonReader(const nlohmann::json& value, std::string what)
    : JsonReader(value, std::move(what), {}) {}

JsonReader::JsonReader(const nlohmann::json& value, std::string what, std::string place)
    : value_(value), what_(std::move(what)), place_(std::move(place)) {}

void JsonReader::fail(const std::string& message, const std::string& hint) const {
    throw Error(ErrorCode::kData,
                place_.empty() ? fmt::format("{}: {}", what_, message)
                               : fmt::format("{}: {}: {}", what_, place_, message),
                hint);
}

void JsonReader::expect(bool condition, const char* kind) const {
    if (!condition) fail(fmt::format("{} expected, found {}", kind, value_.type_name()));
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
            fail(fmt::format("unknown member '{}'", key), nearest_hint(key, known));
        }
    }
}

bool JsonReader::has(const std::string& key) const {
    expect(value_.is_object(), "an object");
    return value_.contains(key);
}

JsonReader JsonReader::operator[](const std::string& key) const {
    if (!has(key)) fail(fmt::format("member '{}' is missing", key));
    return {value_[key], what_, place_.empty() ? key : fmt::format("{}.{}", place_, key)};
}

std::size_t JsonReader::size() const {
    expect(value_.is_array(), "an array");
    return value_.size();
}

JsonReader JsonReader::operator[](std::size_t index) const {
    if (index >= size()) fail(fmt::format("{} entries, at least {} expected", size(), index + 1));
    return {value_[index], what_, fmt::format("{}[{}]", place_, index)};
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

nlohmann::json parse_json(std::string_view text, const std::string& what) {
    try {
        return nlohmann::json::parse(text);
    } catch (const nlohmann::json::exception& error) {
        // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
        std::string_view message = error.what();
        const std::size_t tag = message.find("] ");
        if (tag != std::string_view::npos) message.remove_prefix(tag + 2);
        throw Error(ErrorCode::kData, fmt::format("{}: not JSON: {}", what, message));
    }
}

}  // namespace subbyte::plan
