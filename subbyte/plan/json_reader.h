// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "subbyte/core/error.h"

namespace subbyte::plan {

// A checked view of a JSON value. Every complaint is an Error (kData unless another code is given)
// that names the place, e.g. "plan: layers.lm_head.wgrad: ...". The value must outlive the reader.
class JsonReader {
public:
    // `what` names the kind of file: "plan", "statistics".
    JsonReader(const nlohmann::json& value, std::string what, ErrorCode code = ErrorCode::kData);

    bool is_text() const { return value_.is_string(); }

    // Objects: the names of the members; `allow` refuses members that are not listed, with the
    // nearest known name.
    std::vector<std::string> keys() const;
    void allow(const std::vector<std::string>& known) const;
    bool has(const std::string& key) const;
    JsonReader operator[](const std::string& key) const;  // a member that must be there

    // Arrays.
    std::size_t size() const;
    JsonReader operator[](std::size_t index) const;
    std::vector<double> numbers(double least = -1e300) const;

    // Scalars: a finite number of at least `least`; a whole number in [least, most].
    double number(double least = -1e300) const;
    std::int64_t integer(std::int64_t least, std::int64_t most) const;
    std::int64_t count() const { return integer(0, INT64_MAX); }
    bool boolean() const;
    const std::string& text() const;

    [[noreturn]] void fail(const std::string& message, const std::string& hint = {}) const;

private:
    JsonReader(const nlohmann::json& value, std::string what, ErrorCode code, std::string place);
    void expect(bool condition, const char* kind) const;

    const nlohmann::json& value_;
    std::string what_;
    ErrorCode code_;
    std::string place_;
};

}  // namespace subbyte::plan
