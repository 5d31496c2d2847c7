// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/element.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "subbyte/core/error.h"
#include "subbyte/formats/scale.h"
#include "tests/golden/hex.h"

namespace subbyte::formats {
namespace {

// Name in the spec grammar -> name in the reference files.
const std::map<std::string, std::string> kNames{
    {"e4m3", "e4m3fn"},   {"e4m3ieee", "e4m3"}, {"e5m2", "e5m2"},         {"e3m4", "e3m4"},
    {"e3m4fn", "e3m4fn"}, {"e2m3", "e2m3"},     {"e3m2", "e3m2"},         {"e2m1", "e2m1"},
    {"e1m2", "e1m2"},     {"int8", "int8"},     {"int4", "int4"},         {"int8full", "int8"},
    {"int4full", "int4"}, {"mxint8", "mxint8"}, {"mxint8full", "mxint8"}, {"nf4", "nf4"}};

TEST(Elements, DecodeEveryCodeToTheReferenceValue) {
    const auto formats = golden::load("elements_decode.json").at("formats");
    for (const auto& [name, reference] : kNames) {
        const ElementFormat& format = *find_element(name);
        auto values = formats.at(reference).at("values");
        if (name == "nf4") {  // given exactly in another field
            values.clear();
            const auto bits = formats.at(reference).at("values_f32_hex").get<std::string>();
            for (float value : golden::floats(bits)) values.push_back(value);
        }
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
        if (format.kind != ElementKind::kFloat) continue;
        EXPECT_EQ(format.exponent_bits, row.at("exp_bits").get<int>()) << name;
        EXPECT_EQ(format.mantissa_bits, row.at("man_bits").get<int>()) << name;
        EXPECT_EQ(format.bias, row.at("bias").get<int>()) << name;
        EXPECT_EQ(format.max, row.at("max").get<float>()) << name;
        EXPECT_EQ(format.lowest, -format.max) << name;
        EXPECT_EQ(format.emax(), row.at("emax").get<int>()) << name;
        EXPECT_EQ(format.min_normal(), row.at("min_normal").get<float>()) << name;
        EXPECT_EQ(format.min_positive(), row.at("min_subnormal").get<float>()) << name;
    }
}

TEST(Elements, EncodeMatchesEveryColumnOfTheReference) {
    const auto file = golden::load("elements_encode.json");
    const auto inputs = golden::floats(file.at("inputs_f32_hex").get<std::string>());
    const std::map<std::string, Rounding> roundings{
        {"rne_sat", Rounding::kNearestEven},    {"rna_sat", Rounding::kNearestAway},
        {"rtz_sat", Rounding::kTowardZero},     {"rup_sat", Rounding::kUp},
        {"rdn_sat", Rounding::kDown},           {"rne_sat127", Rounding::kNearestEven},
        {"rne_sat128", Rounding::kNearestEven}, {"rne_sat7", Rounding::kNearestEven},
        {"rne_sat8", Rounding::kNearestEven}};
    int columns = 0;
    for (const auto& [name, reference] : kNames) {
        if (name == "nf4") continue;
        const ElementFormat& format = *find_element(name);
        const auto& entry = file.at("formats").at(reference);
        for (const auto& [column, text] : entry.items()) {
            if (format.kind == ElementKind::kInteger &&
                column.ends_with("8") != name.ends_with("full")) {
                continue;
            }
            const auto expected = golden::hex(text.get<std::string>(), 2);
            ASSERT_EQ(expected.size(), inputs.size());
            std::vector<std::uint32_t> codes;
            for (float x : inputs) {
                codes.push_back(column == "rne_nonsat" ? encode_unsaturated(format, x)
                                                       : encode(format, x, roundings.at(column)));
            }
            golden::expect_codes(codes, expected, name + " " + column);
            ++columns;
        }
    }
    EXPECT_EQ(columns, 40);
}

TEST(Elements, DynamicMapsAreThoseOfTheOptimizers) {
    const auto maps = golden::load("optimizer_states.json").at("maps");
    const std::map<std::string, std::string> names{
        {"bnb_dynamic_signed", "dynamic8"},  {"bnb_dynamic_unsigned", "udynamic8"},
        {"torchao_8bit_signed", "dynamic8"}, {"torchao_8bit_unsigned", "udynamic8"},
        {"torchao_4bit_signed", "dynamic4"}, {"torchao_4bit_unsigned_linear_no_zero", "ulinear4"}};
    for (const auto& [reference, name] : names) {
        const ElementFormat& format = *find_element(name);
        std::vector<float> values;
        for (std::uint32_t code = 0; code < static_cast<std::uint32_t>(format.code_count());
             ++code) {
            values.push_back(decode(format, code));
        }
        golden::expect_same(
            values, golden::floats(maps.at(reference).at("f32_hex").get<std::string>()), reference);
    }
    EXPECT_EQ(maps.size(), names.size());
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

const std::map<ScaleFormat, std::string> kScales{{ScaleFormat::kE8m0, "e8m0"},
                                                 {ScaleFormat::kUe4m3, "ue4m3"},
                                                 {ScaleFormat::kUe5m3, "ue5m3_n"},
                                                 {ScaleFormat::kUe5m3h, "ue5m3_h"}};

TEST(Scales, DecodeEveryCodeToTheReferenceValue) {
    const auto formats = golden::load("elements_decode.json").at("formats");
    for (const auto& [format, name] : kScales) {
        const auto& values = formats.at(name).at("values");
        float max = 0.0f;
        for (std::size_t code = 0; code < values.size(); ++code) {
            const auto expected = static_cast<float>(golden::number(values[code]));
            const float value = decode_scale(format, static_cast<std::uint8_t>(code));
            EXPECT_TRUE(golden::same(value, expected)) << name << " code " << code;
            if (std::isnan(value)) continue;
            max = std::max(max, value);
            // The number itself has its own code back, whatever the rounding.
            for (Rounding rounding : {Rounding::kNearestEven, Rounding::kUp, Rounding::kDown}) {
                EXPECT_EQ(encode_scale(format, value, rounding), code) << name;
            }
        }
        EXPECT_EQ(scale_max(format), max) << name;
        EXPECT_EQ(max, formats.at(name).at("max").get<float>()) << name;
    }
}

TEST(Scales, EncodeMatchesEveryColumnOfTheReference) {
    const auto file = golden::load("elements_encode.json");
    const auto inputs = golden::floats(file.at("inputs_f32_hex").get<std::string>());
    const std::map<std::string, Rounding> roundings{{"rne_sat", Rounding::kNearestEven},
                                                    {"rup_sat", Rounding::kUp},
                                                    {"nearest", Rounding::kNearestEven},
                                                    {"up", Rounding::kUp},
                                                    {"down", Rounding::kDown}};
    int columns = 0;
    for (const auto& [format, name] : kScales) {
        for (const auto& [column, text] : file.at("formats").at(name).items()) {
            const auto expected = golden::hex(text.get<std::string>(), 2);
            std::size_t checked = 0;
            for (std::size_t i = 0; i < inputs.size(); ++i) {
                // Outside the contract: a sign, and for e8m0 zero and Inf.
                if (std::signbit(inputs[i])) continue;
                if (format == ScaleFormat::kE8m0 && (inputs[i] == 0.0f || std::isinf(inputs[i]))) {
                    continue;
                }
                const std::uint8_t code =
                    column == "rne_nonsat" ? encode_scale_unsaturated(format, inputs[i])
                                           : encode_scale(format, inputs[i], roundings.at(column));
                EXPECT_EQ(code, expected[i]) << name << " " << column << " " << inputs[i];
                ++checked;
            }
            EXPECT_GT(checked, 1000u);
            ++columns;
        }
    }
    EXPECT_EQ(columns, 12);
}

TEST(Scales, NanAndNegativeNumbers) {
    for (const auto& [format, name] : kScales) {
        const float nan = std::numeric_limits<float>::quiet_NaN();
        EXPECT_TRUE(std::isnan(decode_scale(format, encode_scale(format, nan)))) << name;
        EXPECT_TRUE(std::isnan(decode_scale(format, encode_scale(format, -nan)))) << name;
        EXPECT_THROW(encode_scale(format, -1.0f), Error) << name;
    }
}

}  // namespace
}  // namespace subbyte::formats
