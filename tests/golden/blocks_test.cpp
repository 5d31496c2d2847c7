// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Codes, scales and decoded values of whole matrices against the reference numbers, by the
// dispatched kernels (run with SUBBYTE_MAX_ISA for the others) and by the reference quantiser.
#include <gtest/gtest.h>

#include <map>

#include "subbyte/formats/code_stream.h"
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
            const auto code = formats::load_code(row, spec.element->bits, c);
            q.codes.push_back(static_cast<std::uint8_t>(code));
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

const std::map<std::string, std::string> kMxElements{{"mxfp4_e2m1", "e2m1"},
                                                     {"mxfp6_e2m3", "e2m3"},
                                                     {"mxfp6_e3m2", "e3m2"},
                                                     {"mxfp8_e4m3", "e4m3"},
                                                     {"mxfp8_e5m2", "e5m2"}};

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
    EXPECT_EQ(cases, 80);  // 4 inputs x 5 elements x 4 rules
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

// mxint8 stops at 127/64, mxint8full goes down to -2.
TEST(MxBlocks, Mxint8OfBothRangesMatches) {
    const json file = golden::load("mx_blocks.json");
    int cases = 0;
    for (const json& entry : file.at("cases")) {
        if (entry.at("format") != "mxint8") continue;
        const Input input = read_input(file.at("inputs").at(entry.at("input").get<std::string>()));
        auto codes = hex_field(entry, "codes_sat127_hex", 2);
        for (const bool full : {false, true}) {
            if (full) {
                for (const json& at : entry.at("elements_where_sat128_gives_minus128")) {
                    codes[at[0].get<std::size_t>() * 32 + at[1].get<std::size_t>()] = 0x80;
                }
            }
            const std::string element = full ? "mxint8full" : "mxint8";
            quantize_both(input.values, input.rows, input.cols, element + ":1x32:e8m0/floor",
                          [&](const Quantized& q, const std::string& what) {
                              golden::expect_codes(q.scale_codes, hex_field(entry, "scales_hex", 2),
                                                   what + " scales");
                              golden::expect_codes(q.codes, codes, what + " codes");
                          });
        }
        ++cases;
    }
    EXPECT_EQ(cases, 4);
}

// int8 has the factor 2^-6 of mxint8 in its scale: scale bytes are 6 lower.
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

// Spec of each published order of operations; "TILE" is filled in.
const std::map<std::string, std::string> kNvfp4Rules{
    {"te_a", "e2m1:TILE:ue4m3+f32"},
    {"te_b", "e2m1:TILE:ue4m3+f32:teb"},
    {"te_a_ue5m3_n", "e2m1:TILE:ue5m3+f32"},
    {"te_a_ue5m3_h", "e2m1:TILE:ue5m3h+f32"},
    {"four_over_six_mae", "e2m1:TILE:ue4m3+f32:4over6mae"},
    {"four_over_six_mse", "e2m1:TILE:ue4m3+f32:4over6"},
    {"torchao_two_level", "e2m1:TILE:ue4m3+f32:torchao"},
    {"torchao_one_level", "e2m1:TILE:ue4m3:torchao"},
    {"ggml_nvfp4_one_level", "e2m1:TILE:ue4m3:ggml"},
};

// Blocks of 16 with an infinity. torchao lets them saturate; here they decode to NaN by design.
std::vector<bool> blocks_with_infinity(const Input& input) {
    std::vector<bool> blocks(input.values.size() / 16, false);
    for (std::size_t i = 0; i < input.values.size(); ++i) {
        if (std::isinf(input.values[i])) blocks[i / 16] = true;
    }
    return blocks;
}

// The expected numbers of those blocks, replaced by the ones of the documented corner.
void mark_blocks(const std::vector<bool>& blocks, std::vector<std::uint32_t>& scales,
                 std::vector<std::uint32_t>& packed, std::vector<float>& values) {
    for (std::size_t block = 0; block < blocks.size(); ++block) {
        if (!blocks[block]) continue;
        scales[block] = 0x7F;
        std::fill_n(packed.begin() + static_cast<std::ptrdiff_t>(8 * block), 8, 0u);
        if (!values.empty()) {
            std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(16 * block), 16,
                        std::nanf(""));
        }
    }
}

TEST(Nvfp4Blocks, CodesScalesAndValuesOfEveryRuleMatch) {
    const json file = golden::load("nvfp4_blocks.json");
    std::map<std::string, int> cases;
    for (const json& entry : file.at("cases")) {
        const std::string rule = entry.at("rule");
        const std::string input_name = entry.at("input");
        const Input input = read_input(file.at("inputs").at(input_name));
        std::string text = kNvfp4Rules.at(rule);
        text.replace(text.find("TILE"), 4, entry.value("tile", std::string("1x16")));
        auto scales = hex_field(entry, "scales_hex", 2);
        auto packed = hex_field(entry, "packed_hex", 2);
        std::vector<float> values;
        if (entry.contains("dequant_f32_hex")) {
            values = golden::floats(entry.at("dequant_f32_hex").get<std::string>());
        }
        if (input_name == "nan_inf") {
            mark_blocks(blocks_with_infinity(input), scales, packed, values);
            // A NaN scale comes with codes 0 here; torchao leaves the codes of the cast.
            for (std::size_t block = 0; block < scales.size(); ++block) {
                if (scales[block] != 0x7F) continue;
                std::fill_n(packed.begin() + static_cast<std::ptrdiff_t>(8 * block), 8, 0u);
            }
        }
        const char* const level_key =
            rule == "torchao_two_level" ? "per_tensor_scale_f32_hex" : "s_dec_f32_hex";
        quantize_both(input.values, input.rows, input.cols, text,
                      [&](const Quantized& q, const std::string& what) {
                          const std::string where = what + " " + input_name;
                          golden::expect_codes(q.scale_codes, scales, where + " scales");
                          golden::expect_codes(q.bytes, packed, where + " packed");
                          if (entry.contains(level_key)) {
                              golden::expect_same(
                                  {q.global},
                                  golden::floats(entry.at(level_key).get<std::string>()), where);
                          }
                          if (!values.empty())
                              golden::expect_same(q.values, values, where + " values");
                      });
        ++cases[rule];
    }
    EXPECT_EQ(cases.size(), kNvfp4Rules.size());
    EXPECT_EQ(cases["te_a"], 12);  // nine inputs with 1x16, three with 16x16
    EXPECT_EQ(cases["te_b"], 9);
    EXPECT_EQ(cases["torchao_two_level"], 8);
    EXPECT_EQ(cases["torchao_one_level"], 10);
}

// Number of elements whose code is another one in `b`.
std::size_t differences(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
    return count;
}

// Zeros in tiles whose 1 / scale overflows: a NaN in float32 arithmetic, a zero here.
std::size_t zeros_times_infinity(const Input& input, const formats::Tile& tile,
                                 const std::vector<float>& scales) {
    const formats::TileGrid grid(tile, input.rows, input.cols);
    std::size_t count = 0;
    for (std::int64_t r = 0; r < input.rows; ++r) {
        for (std::int64_t c = 0; c < input.cols; ++c) {
            const float scale = scales[static_cast<std::size_t>(grid.index(r, c))];
            const bool zero = input.values[static_cast<std::size_t>(r * input.cols + c)] == 0.0f;
            count += zero && std::isinf(1.0f / scale) ? 1 : 0;
        }
    }
    return count;
}

Quantized reference(const Input& input, const std::string& text) {
    return run(input.values, input.rows, input.cols, parse_spec(text), formats::quantize_reference,
               formats::dequantize_reference);
}

TEST(Fp32Tiles, CodesScalesAndValuesMatch) {
    const json file = golden::load("tiles.json");
    int divided = 0, multiplied = 0, powers = 0;
    for (const json& entry : file.at("cases")) {
        const Input input = read_input(file.at("inputs").at(entry.at("input").get<std::string>()));
        std::string name = entry.at("element").get<std::string>();
        if (name == "e4m3fn") name = "e4m3";
        const auto& element = *formats::find_element(name);
        const bool power = entry.at("scale") == "power_of_two_up";
        const bool recip = entry.at("arithmetic") == "recip";
        const std::string scale = power ? "f32/rceil" : recip ? "f32:recip" : "f32";
        const auto check = [&](const Quantized& q, const std::string& what) {
            const std::string where = what + " " + entry.at("input").get<std::string>();
            golden::expect_same(
                q.scales, golden::floats(entry.at("scales_f32_hex").get<std::string>()), where);
            if (entry.contains("codes_hex")) {
                golden::expect_codes(
                    q.codes, hex_field(entry, "codes_hex", element.bits == 4 ? 1 : 2), where);
            }
            if (entry.contains("nmse")) {
                double error = 0, power_sum = 0;
                for (std::size_t i = 0; i < q.values.size(); ++i) {
                    const double x = input.values[i], d = q.values[i] - x;
                    error += d * d;
                    power_sum += x * x;
                }
                EXPECT_NEAR(error / power_sum, entry.at("nmse").get<double>(),
                            1e-6 * entry.at("nmse").get<double>())
                    << where;
            }
            if (!entry.contains("dequant_f32_hex")) return;
            auto expected = golden::floats(entry.at("dequant_f32_hex").get<std::string>());
            if (element.kind == formats::ElementKind::kInteger) {
                for (float& value : expected) value += 0.0f;  // an integer has one zero only
            }
            golden::expect_same(q.values, expected, where + " values");
        };
        const std::string tile = entry.at("tile").get<std::string>();
        const std::string text = name + ":" + tile + ":" + scale;
        quantize_both(input.values, input.rows, input.cols, text, check);
        if (recip) {
            const auto other = reference(input, name + ":" + tile + ":f32");
            EXPECT_EQ(differences(reference(input, text).codes, other.codes) +
                          zeros_times_infinity(input, parse_spec(text).tile, other.scales),
                      entry.at("codes_different_from_div").get<std::size_t>())
                << text << " " << entry.at("input");
        }
        // The shape itself and 1 x columns have names of their own.
        if (tile == "5x300") {
            quantize_both(input.values, input.rows, input.cols, name + ":tensor:" + scale, check);
        }
        if (tile == "1x300") {
            quantize_both(input.values, input.rows, input.cols, name + ":row:" + scale, check);
        }
        (power ? powers : recip ? multiplied : divided) += 1;
    }
    EXPECT_EQ(divided, 19);
    EXPECT_EQ(multiplied, 19);
    EXPECT_EQ(powers, 9);
}

// Low-bit optimizer states are ordinary specs: tables and E4M3 with one FP32 scale per block.
TEST(OptimizerStates, BlocksOfTheMapsMatch) {
    const json file = golden::load("optimizer_states.json");
    const std::map<std::string, std::string> specs{
        {"torchao_8bit m", "dynamic8:1x256:f32"},     {"torchao_8bit v", "udynamic8:1x256:f32"},
        {"torchao_4bit m", "dynamic4:1x128:f32"},     {"torchao_4bit v", "ulinear4:1x128:f32"},
        {"torchao_fp8_e4m3 m", "e4m3:1x256:f32"},     {"torchao_fp8_e4m3 v", "e4m3:1x256:f32"},
        {"bitsandbytes_nf4 weights", "nf4:1x64:f32"},
    };
    std::map<std::string, Input> inputs;
    int cases = 0;
    for (const json& entry : file.at("quantise")) {
        const std::string state = entry.at("state"), rule = entry.at("rule");
        if (entry.contains("x_f32_hex")) {
            Input& input = inputs[state];
            input.values = golden::floats(entry.at("x_f32_hex").get<std::string>());
            input.rows = 1;
            input.cols = static_cast<std::int64_t>(input.values.size());
        }
        const auto spec = specs.find(rule + " " + state);
        if (spec == specs.end()) continue;
        const Quantized q = reference(inputs.at(state), spec->second);
        const char* const scale_key =
            entry.contains("scale_f32_hex") ? "scale_f32_hex" : "absmax_f32_hex";
        golden::expect_same(q.scales, golden::floats(entry.at(scale_key).get<std::string>()),
                            spec->first + " scales");
        if (entry.contains("codes_hex")) {
            golden::expect_codes(q.codes, hex_field(entry, "codes_hex", 2), spec->first);
        } else {
            std::vector<std::uint32_t> codes;  // first element in the high nibble there
            for (std::uint32_t byte : hex_field(entry, "packed_hex", 2)) {
                codes.push_back(byte >> 4);
                codes.push_back(byte & 15);
            }
            golden::expect_codes(q.codes, codes, spec->first);
        }
        if (entry.contains("dequant_f32_hex")) {
            golden::expect_same(q.values,
                                golden::floats(entry.at("dequant_f32_hex").get<std::string>()),
                                spec->first + " values");
        }
        ++cases;
    }
    EXPECT_EQ(cases, 7);
}

}  // namespace
}  // namespace subbyte
