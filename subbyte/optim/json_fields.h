// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "subbyte/core/error.h"

namespace subbyte::optim {

// Reads the members of a JSON object by name and type. Every complaint is an Error of the given
// code that names `where`, the key and the value found. The object must outlive the reader.
class JsonFields {
public:
    JsonFields(const nlohmann::json& object, std::string where, ErrorCode code);

    bool has(const std::string& key) const { return object_.contains(key); }

    // Required members: a finite number; an integer of at least 0; ...
    double number(const std::string& key);
    std::int64_t count(const std::string& key);
    bool flag(const std::string& key);
    std::string text(const std::string& key);
    std::array<double, 2> pair(const std::string& key);
    const nlohmann::json& object(const std::string& key);

    // Overwrites `value` when the member is there.
    void read(const std::string& key, double& value);
    void read(const std::string& key, std::int64_t& value);
    void read(const std::string& key, bool& value);
    void read(const std::string& key, std::string& value);
    void read(const std::string& key, std::array<double, 2>& value);

    // Error with the nearest known key for a member that nobody asked for.
    void finish() const;

private:
    void note(const std::string& key);
    const nlohmann::json& get(const std::string& key);
    [[noreturn]] void refuse(const std::string& key, const std::string& expected) const;

    const nlohmann::json& object_;
    std::string where_;
    ErrorCode code_;
    std::vector<std::string> asked_;
};

}  // namespace subbyte::optim
