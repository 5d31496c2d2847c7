// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/element.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "subbyte/formats/scale.h"
#include "tests/golden/hex.h"

namespace subbyte::formats {
namespace {

// Name in the spec grammar -> name in the reference files.
const std::map<std::string, std::string> kNames{
    {"e4m3", "e4m3fn"}, {"e5m2", "e5m2"}, {"e2m1", "e2m1"}, {"int8", "int8"}, {"int4", "int4"}};

TEST(Elements, DecodeEveryCodeToTheReferenceValue) {
    const auto formats = golden::load("elements_decode.json").at("formats");
    for (const auto& [name, reference] : kNames) {
        const ElementFormat& format = *find_element(name);
        const auto& values = formats.at(reference).at("values");
        ASSERT_EQ(values.size(), static_cast<std::size_t>(format.code_count())) << name;
        for (std::uint32_t code = 0; code < values.size(); ++code) {
            const auto expected = static_cast<float>(golden::number(values[code]));
            EXPECT_TRUE(golden::same(decode(format, code), expected))
                << name << " code " << code << ": " << decode(format, code) << " != " << expected;
        }
    }
}

TEST(Elements, TableRowsMatchTheReferenceDescriptions) {
    const auto formats = golden::load("elements_decode.json").at("formats");
    for (const auto& [name, reference] : kNames) {
        const ElementFormat& format = *find_element(name);
        const auto& row = formats.at(reference);
        EXPECT_EQ(format.bits, row.at("bits").get<int>()) << name;
        if (format.kind == ElementKind::kInteger) continue;
        EXPECT_EQ(format.exponent_bits, row.at("exp_bits").get<int>()) << name;
        EXPECT_EQ(format.mantissa_bits, row.at("man_bits").get<int>()) << name;
        EXPECT_EQ(format.bias, row.at("bias").get<int>()) << name;
        EXPECT_EQ(format.max, row.at("max").get<float>()) << name;
        EXPECT_EQ(format.emax(), row.at("emax").get<int>()) << name;
    }
}

TEST(Elements, EncodeRoundsToNearestEvenAndSaturates) {
    const auto file = golden::load("elements_encode.json");
    const auto inputs = golden::floats(file.at("inputs_f32_hex").get<std::string>());
    const std::map<std::string, std::string> columns{{"e4m3", "rne_sat"},
                                                     {"e5m2", "rne_sat"},
                                                     {"e2m1", "rne_sat"},
                                                     {"int8", "rne_sat127"},
                                                     {"int4", "rne_sat7"}};
    for (const auto& [name, reference] : kNames) {
        const ElementFormat& format = *find_element(name);
        const auto expected = golden::hex(
            file.at("formats").at(reference).at(columns.at(name)).get<std::string>(), 2);
        ASSERT_EQ(expected.size(), inputs.size());
        std::vector<std::uint32_t> codes;
        for (float x : inputs) codes.push_back(encode(format, x, Rounding::kNearestEven));
        golden::expect_codes(codes, expected, name);
    }
}

TEST(Elements, NanGivesTheNanCodeWhereThereIsOne) {
    for (float x :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()}) {
        for (const ElementFormat& format : element_formats()) {
            const std::uint32_t code = encode(format, x, Rounding::kNearestEven);
            if (format.specials == Specials::kNone) {
                EXPECT_EQ(code, 0u) << format.name;
            } else {
                EXPECT_TRUE(std::isnan(decode(format, code))) << format.name;
            }
        }
    }
}

TEST(Scales, DecodeEveryCodeToTheReferenceValue) {
    const auto formats = golden::load("elements_decode.json").at("formats");
    for (const auto& [format, name] :
         {std::pair{ScaleFormat::kE8m0, "e8m0"}, std::pair{ScaleFormat::kUe4m3, "ue4m3"}}) {
        const auto& values = formats.at(name).at("values");
        for (std::size_t code = 0; code < values.size(); ++code) {
            const auto expected = static_cast<float>(golden::number(values[code]));
            EXPECT_TRUE(
                golden::same(decode_scale(format, static_cast<std::uint8_t>(code)), expected))
                << name << " code " << code;
        }
    }
}

TEST(Scales, EncodePositiveNumbersAsTheReference) {
    const auto file = golden::load("elements_encode.json");
    const auto inputs = golden::floats(file.at("inputs_f32_hex").get<std::string>());
    const auto ue4m3 =
        golden::hex(file.at("formats").at("ue4m3").at("rne_sat").get<std::string>(), 2);
    std::size_t checked = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (std::signbit(inputs[i])) continue;
        EXPECT_EQ(encode_scale(ScaleFormat::kUe4m3, inputs[i]), ue4m3[i]) << inputs[i];
        ++checked;
    }
    EXPECT_GT(checked, 1000u);
    for (int code = 0; code < 255; ++code) {
        const auto byte = static_cast<std::uint8_t>(code);
        EXPECT_EQ(encode_scale(ScaleFormat::kE8m0, decode_scale(ScaleFormat::kE8m0, byte)), byte);
    }
}

}  // namespace
}  // namespace subbyte::formats
