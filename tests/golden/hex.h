// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

// Readers for the number conventions of tests/golden/data: fixed-width hexadecimal, row-major, no
// separators.
namespace subbyte::golden {

inline nlohmann::json load(const std::string& name) {
    const std::string path = std::string(SUBBYTE_GOLDEN_DIR) + "/" + name;
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot open " + path);
    return nlohmann::json::parse(file);
}

inline std::vector<std::uint32_t> hex(std::string_view text, std::size_t digits) {
    std::vector<std::uint32_t> values;
    for (std::size_t i = 0; i + digits <= text.size(); i += digits) {
        values.push_back(static_cast<std::uint32_t>(
            std::stoul(std::string(text.substr(i, digits)), nullptr, 16)));
    }
    return values;
}

inline std::vector<float> floats(std::string_view text) {
    std::vector<float> values;
    for (std::uint32_t bits : hex(text, 8)) values.push_back(std::bit_cast<float>(bits));
    return values;
}

inline std::vector<float> bf16s(std::string_view text) {
    std::vector<float> values;
    for (std::uint32_t bits : hex(text, 4)) values.push_back(std::bit_cast<float>(bits << 16));
    return values;
}

// A JSON number, or one of the texts nan, inf, -inf.
inline double number(const nlohmann::json& value) {
    return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

// Equal bits, or both NaN.
inline bool same(float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
           (std::isnan(a) && std::isnan(b));
}

inline void expect_same(const std::vector<float>& actual, const std::vector<float>& expected,
                        const std::string& what) {
    ASSERT_EQ(actual.size(), expected.size()) << what;
    std::size_t differences = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
        if (same(actual[i], expected[i])) continue;
        if (++differences <= 5) {
            ADD_FAILURE() << what << " [" << i << "]: " << actual[i] << ", expected "
                          << expected[i];
        }
    }
    EXPECT_EQ(differences, 0u) << what;
}

template <class Codes>
void expect_codes(const Codes& actual, const std::vector<std::uint32_t>& expected,
                  const std::string& what) {
    ASSERT_EQ(actual.size(), expected.size()) << what;
    std::size_t differences = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
        if (actual[i] == expected[i]) continue;
        if (++differences <= 5) {
            ADD_FAILURE() << what << " [" << i << "]: " << std::hex << std::uint32_t{actual[i]}
                          << ", expected " << expected[i];
        }
    }
    EXPECT_EQ(differences, 0u) << what;
}

}  // namespace subbyte::golden
