// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Codes, scales and decoded values of whole matrices against the reference numbers, by the
// dispatched kernels (run with SUBBYTE_MAX_ISA for the others) and by the reference quantiser.
#include <gtest/gtest.h>

#include <map>

#include "subbyte/kernels/quantize/quantize.h"
#include "tests/golden/hex.h"

namespace subbyte {
namespace {

using formats::MatrixView;
using formats::PackedView;
using formats::parse_spec;
using formats::QuantSpec;
using nlohmann::json;

struct Quantized {
    std::vector<std::uint8_t> codes;  // one per element
    std::vector<std::uint8_t> bytes;  // as stored
    std::vector<float> scales;        // FP32 scales
    std::vector<std::uint8_t> scale_codes;
    float global = 0.0f;
    std::vector<float> values;
};

template <class Quantize, class Dequantize>
Quantized run(const std::vector<float>& x, std::int64_t rows, std::int64_t cols,
              const QuantSpec& spec, Quantize quantize, Dequantize dequantize) {
    const auto tiles = static_cast<std::size_t>(formats::TileGrid(spec.tile, rows, cols).count());
    const std::int64_t stride = formats::row_bytes(spec, cols);
    Quantized q;
    q.bytes.resize(static_cast<std::size_t>(rows * stride));
    q.scales.resize(spec.scale == formats::ScaleFormat::kFp32 ? tiles : 0);
    q.scale_codes.resize(spec.scale == formats::ScaleFormat::kFp32 ? 0 : tiles);
    q.values.resize(x.size());
    const PackedView packed{q.bytes.data(), q.scales.data(), q.scale_codes.data(), &q.global};
    quantize(MatrixView{x.data(), rows, cols, cols, 1}, spec, NoiseAddress{}, packed);
    dequantize(packed, spec, rows, cols, q.values.data());
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < cols; ++c) {
            const std::uint8_t* row = q.bytes.data() + r * stride;
            q.codes.push_back(spec.element->bits == 4 ? (row[c / 2] >> (4 * (c % 2))) & 15
                                                      : row[c]);
        }
    }
    return q;
}

// Runs `check` on the result of the dispatched kernels and on that of the reference.
template <class Check>
void quantize_both(const std::vector<float>& x, std::int64_t rows, std::int64_t cols,
                   const std::string& text, Check check) {
    const QuantSpec spec = parse_spec(text);
    check(run(x, rows, cols, spec, kernels::quantize, kernels::dequantize), text + " dispatched");
    check(run(x, rows, cols, spec, formats::quantize_reference, formats::dequantize_reference),
          text + " reference");
}

struct Input {
    std::vector<float> values;
    std::int64_t rows, cols;
};

Input read_input(const json& entry) {
    Input input;
    input.values = entry.contains("bf16_hex")
                       ? golden::bf16s(entry.at("bf16_hex").get<std::string>())
                       : golden::floats(entry.at("f32_hex").get<std::string>());
    input.rows = entry.at("shape")[0].get<std::int64_t>();
    input.cols = entry.at("shape")[1].get<std::int64_t>();
    return input;
}

std::vector<std::uint32_t> hex_field(const json& entry, const std::string& key,
                                     std::size_t digits) {
    return golden::hex(entry.at(key).get<std::string>(), digits);
}

const std::map<std::string, std::string> kMxElements{
    {"mxfp4_e2m1", "e2m1"}, {"mxfp8_e4m3", "e4m3"}, {"mxfp8_e5m2", "e5m2"}};

TEST(MxBlocks, CodesScalesAndValuesMatch) {
    const json file = golden::load("mx_blocks.json");
    int cases = 0;
    for (const json& entry : file.at("cases")) {
        const auto element = kMxElements.find(entry.at("format").get<std::string>());
        if (element == kMxElements.end()) continue;
        const Input input = read_input(file.at("inputs").at(entry.at("input").get<std::string>()));
        const std::string text =
            element->second + ":1x32:e8m0/" + entry.at("mode").get<std::string>();
        quantize_both(input.values, input.rows, input.cols, text,
                      [&](const Quantized& q, const std::string& what) {
                          golden::expect_codes(q.scale_codes, hex_field(entry, "scales_hex", 2),
                                               what + " scales");
                          if (entry.contains("packed_hex")) {
                              golden::expect_codes(q.bytes, hex_field(entry, "packed_hex", 2),
                                                   what + " packed");
                          } else {
                              golden::expect_codes(q.codes, hex_field(entry, "codes_hex", 2),
                                                   what + " codes");
                          }
                          if (entry.contains("dequant_f32_hex")) {
                              const auto expected =
                                  golden::floats(entry.at("dequant_f32_hex").get<std::string>());
                              const std::vector<float> head(
                                  q.values.begin(),
                                  q.values.begin() + static_cast<std::ptrdiff_t>(expected.size()));
                              golden::expect_same(head, expected, what + " values");
                          }
                      });
        ++cases;
    }
    EXPECT_EQ(cases, 48);  // 4 inputs x 3 elements x 4 rules
}

TEST(MxBlocks, RaggedRowsMatch) {
    const json ragged = golden::load("mx_blocks.json").at("ragged");
    const Input input = read_input(ragged);
    int cases = 0;
    for (const json& entry : ragged.at("cases")) {
        const std::string text = kMxElements.at(entry.at("format").get<std::string>()) +
                                 ":1x32:e8m0/" + entry.at("mode").get<std::string>();
        quantize_both(
            input.values, input.rows, input.cols, text,
            [&](const Quantized& q, const std::string& what) {
                golden::expect_codes(q.scale_codes, hex_field(entry, "scales_hex", 2), what);
                golden::expect_codes(q.codes, hex_field(entry, "codes_hex", 2), what);
                golden::expect_same(
                    q.values, golden::floats(entry.at("dequant_f32_hex").get<std::string>()), what);
            });
        ++cases;
    }
    EXPECT_EQ(cases, 2);
}

// MXINT8 is int8 with the factor 2^-6 inside the element: scale bytes are 6 higher there.
TEST(MxBlocks, Int8IsMxint8WithShiftedScale) {
    const json file = golden::load("mx_blocks.json");
    int cases = 0;
    for (const json& entry : file.at("cases")) {
        if (entry.at("format") != "mxint8" || entry.at("input") == "corner") continue;
        const Input input = read_input(file.at("inputs").at(entry.at("input").get<std::string>()));
        auto scales = hex_field(entry, "scales_hex", 2);
        for (std::uint32_t& scale : scales) scale -= 6;
        quantize_both(input.values, input.rows, input.cols, "int8:1x32:e8m0/floor",
                      [&](const Quantized& q, const std::string& what) {
                          golden::expect_codes(q.scale_codes, scales, what);
                          golden::expect_codes(q.codes, hex_field(entry, "codes_sat127_hex", 2),
                                               what);
                      });
        ++cases;
    }
    EXPECT_EQ(cases, 3);
}

TEST(Nvfp4Blocks, CodesScalesAndValuesMatchTheFirstOrderOfOperations) {
    const json file = golden::load("nvfp4_blocks.json");
    int cases = 0;
    for (const json& entry : file.at("cases")) {
        if (entry.at("rule") != "te_a") continue;
        const Input input = read_input(file.at("inputs").at(entry.at("input").get<std::string>()));
        const std::string text = "e2m1:" + entry.value("tile", std::string("1x16")) + ":ue4m3+f32";
        quantize_both(
            input.values, input.rows, input.cols, text,
            [&](const Quantized& q, const std::string& what) {
                const std::string where = what + " " + entry.at("input").get<std::string>();
                golden::expect_codes(q.scale_codes, hex_field(entry, "scales_hex", 2),
                                     where + " scales");
                golden::expect_codes(q.bytes, hex_field(entry, "packed_hex", 2), where + " packed");
                golden::expect_same({q.global},
                                    golden::floats(entry.at("s_dec_f32_hex").get<std::string>()),
                                    where);
                if (entry.contains("dequant_f32_hex")) {
                    golden::expect_same(
                        q.values, golden::floats(entry.at("dequant_f32_hex").get<std::string>()),
                        where + " values");
                }
            });
        ++cases;
    }
    EXPECT_EQ(cases, 12);  // nine inputs with 1x16, three with 16x16
}

TEST(Fp32Tiles, CodesScalesAndValuesMatch) {
    const json file = golden::load("tiles.json");
    int cases = 0;
    for (const json& entry : file.at("cases")) {
        if (entry.at("arithmetic") != "div" || entry.at("scale") != "amax/fmax") continue;
        const Input input = read_input(file.at("inputs").at(entry.at("input").get<std::string>()));
        std::string name = entry.at("element").get<std::string>();
        if (name == "e4m3fn") name = "e4m3";
        const auto& element = *formats::find_element(name);
        const auto check = [&](const Quantized& q, const std::string& what) {
            const std::string where = what + " " + entry.at("input").get<std::string>();
            golden::expect_same(
                q.scales, golden::floats(entry.at("scales_f32_hex").get<std::string>()), where);
            golden::expect_codes(q.codes, hex_field(entry, "codes_hex", element.bits == 4 ? 1 : 2),
                                 where);
            if (!entry.contains("dequant_f32_hex")) return;
            auto expected = golden::floats(entry.at("dequant_f32_hex").get<std::string>());
            if (element.kind == formats::ElementKind::kInteger) {
                for (float& value : expected) value += 0.0f;  // an integer has one zero only
            }
            golden::expect_same(q.values, expected, where + " values");
        };
        const std::string tile = entry.at("tile").get<std::string>();
        quantize_both(input.values, input.rows, input.cols, name + ":" + tile + ":f32", check);
        // The shape itself and 1 x columns have names of their own.
        if (tile == "5x300") {
            quantize_both(input.values, input.rows, input.cols, name + ":tensor:f32", check);
        }
        if (tile == "1x300") {
            quantize_both(input.values, input.rows, input.cols, name + ":row:f32", check);
        }
        ++cases;
    }
    EXPECT_EQ(cases, 19);
}

}  // namespace
}  // namespace subbyte
