// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// `subbyte quantize` on files made from the reference numbers. The files are written and read here
// by hand, not with the program's own code.
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <span>

#include "tests/cli/files.h"
#include "tests/cli/program.h"
#include "tests/golden/hex.h"

namespace subbyte::testing {
namespace {

Array read_input(const json& entry) {
    return {entry.at("shape").get<std::vector<std::int64_t>>(),
            entry.contains("bf16_hex") ? golden::bf16s(entry.at("bf16_hex").get<std::string>())
                                       : golden::floats(entry.at("f32_hex").get<std::string>())};
}

std::vector<float> floats_of(const Entry& entry) {
    EXPECT_EQ(entry.dtype, "F32");
    std::vector<float> values(entry.bytes.size() / 4);
    std::memcpy(values.data(), entry.bytes.data(), entry.bytes.size());
    return values;
}

std::vector<std::uint8_t> codes_of(const Entry& entry) {
    EXPECT_EQ(entry.dtype, "U8");
    return {entry.bytes.begin(), entry.bytes.end()};
}

// One code per element, from rows of bytes.
std::vector<std::uint8_t> unpack(const Entry& entry, std::int64_t cols, int bits) {
    const std::vector<std::uint8_t> bytes = codes_of(entry);
    const std::int64_t stride = entry.shape.at(1);
    std::vector<std::uint8_t> codes;
    for (std::int64_t r = 0; r < entry.shape.at(0); ++r) {
        for (std::int64_t c = 0; c < cols; ++c) {
            const std::uint8_t byte = bytes.at(r * stride + (bits == 4 ? c / 2 : c));
            codes.push_back(bits == 4 ? (byte >> (4 * (c % 2))) & 15 : byte);
        }
    }
    return codes;
}

std::vector<std::uint32_t> hex_field(const json& entry, const char* key, std::size_t digits) {
    return golden::hex(entry.at(key).get<std::string>(), digits);
}

class Quantize : public Program {
protected:
    // Quantises all of `inputs` in one call.
    Entries quantize(const std::map<std::string, Array>& inputs, const std::string& spec) const {
        Entries entries;
        for (const auto& [name, array] : inputs) {
            entries[name] = {"F32", array.shape, bytes_of(array.values)};
        }
        write("in.safetensors", safetensors(entries));
        const Call call = run("quantize in.safetensors --spec " + spec + " --out out.safetensors");
        EXPECT_EQ(call.exit_code, 0) << call.err;
        return read_safetensors(read_file(path("out.safetensors")));
    }

    static std::map<std::string, Array> all_inputs(const json& file) {
        std::map<std::string, Array> inputs;
        for (const auto& [name, entry] : file.at("inputs").items())
            inputs[name] = read_input(entry);
        return inputs;
    }
};

TEST_F(Quantize, Nvfp4FilesMatchTheReference) {
    const json file = golden::load("nvfp4_blocks.json");
    const auto inputs = all_inputs(file);
    int cases = 0;
    for (const std::string tile : {"1x16", "16x16"}) {
        const Entries out = quantize(inputs, "e2m1:" + tile + ":ue4m3+f32");
        EXPECT_EQ(out.size(), 4 * inputs.size());
        for (const json& entry : file.at("cases")) {
            if (entry.at("rule") != "te_a" || entry.value("tile", "1x16") != tile) continue;
            const std::string name = entry.at("input");
            golden::expect_codes(codes_of(out.at(name + ".scales")),
                                 hex_field(entry, "scales_hex", 2), name + " scales");
            golden::expect_codes(codes_of(out.at(name + ".codes")),
                                 hex_field(entry, "packed_hex", 2), name + " codes");
            golden::expect_same(floats_of(out.at(name + ".global_scale")),
                                golden::floats(entry.at("s_dec_f32_hex").get<std::string>()), name);
            EXPECT_TRUE(out.at(name + ".global_scale").shape.empty());
            EXPECT_EQ(out.at(name + ".dequantized").shape, inputs.at(name).shape);
            if (entry.contains("dequant_f32_hex")) {
                golden::expect_same(floats_of(out.at(name + ".dequantized")),
                                    golden::floats(entry.at("dequant_f32_hex").get<std::string>()),
                                    name + " values");
            }
            ++cases;
        }
    }
    EXPECT_EQ(cases, 12);
}

TEST_F(Quantize, MxFilesMatchTheReference) {
    const json file = golden::load("mx_blocks.json");
    const auto inputs = all_inputs(file);
    const std::map<std::string, std::string> elements{
        {"e2m1", "mxfp4_e2m1"}, {"e4m3", "mxfp8_e4m3"}, {"e5m2", "mxfp8_e5m2"}};
    int cases = 0;
    for (const auto& [element, format] : elements) {
        for (const std::string mode : {"floor", "ceil", "rceil", "even"}) {
            const Entries out = quantize(inputs, element + ":1x32:e8m0/" + mode);
            EXPECT_EQ(out.size(), 3 * inputs.size());
            for (const json& entry : file.at("cases")) {
                if (entry.at("format") != format || entry.at("mode") != mode) continue;
                const std::string name = entry.at("input"), what = format + " " + mode + " " + name;
                golden::expect_codes(codes_of(out.at(name + ".scales")),
                                     hex_field(entry, "scales_hex", 2), what + " scales");
                golden::expect_codes(
                    codes_of(out.at(name + ".codes")),
                    hex_field(entry, element == "e2m1" ? "packed_hex" : "codes_hex", 2),
                    what + " codes");
                if (entry.contains("dequant_f32_hex")) {
                    auto values = floats_of(out.at(name + ".dequantized"));
                    const auto expected =
                        golden::floats(entry.at("dequant_f32_hex").get<std::string>());
                    values.resize(expected.size());
                    golden::expect_same(values, expected, what + " values");
                }
                ++cases;
            }
        }
    }
    EXPECT_EQ(cases, 48);
}

TEST_F(Quantize, FloatScaleFilesMatchTheReference) {
    const json file = golden::load("tiles.json");
    const auto inputs = all_inputs(file);
    std::map<std::string, std::vector<const json*>> by_spec;
    for (const json& entry : file.at("cases")) {
        if (entry.at("arithmetic") != "div" || entry.at("scale") != "amax/fmax") continue;
        std::string element = entry.at("element");
        if (element == "e4m3fn") element = "e4m3";
        by_spec[element + ":" + entry.at("tile").get<std::string>() + ":f32"].push_back(&entry);
    }
    int cases = 0;
    for (const auto& [spec, entries] : by_spec) {
        const Entries out = quantize(inputs, spec);
        const bool integer = spec.starts_with("int");
        const int bits = spec.starts_with("e2m1") || spec.starts_with("int4") ? 4 : 8;
        for (const json* entry : entries) {
            const std::string name = entry->at("input"), what = spec + " " + name;
            golden::expect_same(floats_of(out.at(name + ".scales")),
                                golden::floats(entry->at("scales_f32_hex").get<std::string>()),
                                what);
            golden::expect_codes(unpack(out.at(name + ".codes"), inputs.at(name).shape[1], bits),
                                 hex_field(*entry, "codes_hex", bits / 4), what + " codes");
            ++cases;
            if (!entry->contains("dequant_f32_hex")) continue;
            auto expected = golden::floats(entry->at("dequant_f32_hex").get<std::string>());
            if (integer) {
                for (float& value : expected) value += 0.0f;  // an integer has one zero only
            }
            golden::expect_same(floats_of(out.at(name + ".dequantized")), expected,
                                what + " values");
        }
    }
    EXPECT_EQ(cases, 19);
}

TEST_F(Quantize, NumpyFileGivesOneTensorNamedData) {
    const json file = golden::load("tiles.json");
    const Array input = read_input(file.at("inputs").at("ragged_5x300"));
    write("in.npy", npy(input));
    const Call call =
        run("quantize in.npy --spec e4m3:1x128:f32 --out out.safetensors --seed 3 --json");
    ASSERT_EQ(call.exit_code, 0) << call.err;
    const Entries out = read_safetensors(read_file(path("out.safetensors")));
    ASSERT_EQ(out.size(), 3u);
    EXPECT_EQ(out.at("data.codes").shape, (std::vector<std::int64_t>{5, 300}));
    EXPECT_EQ(out.at("data.scales").shape, (std::vector<std::int64_t>{5, 3}));
    EXPECT_EQ(out.at("data.dequantized").shape, input.shape);

    // The printed numbers, from their definitions.
    const json report = call.json();
    const std::vector<float> decoded = floats_of(out.at("data.dequantized"));
    double error = 0, source = 0;
    for (std::size_t i = 0; i < decoded.size(); ++i) {
        error += std::pow(double(decoded[i]) - double(input.values[i]), 2);
        source += std::pow(double(input.values[i]), 2);
    }
    const json& line = report["tensors"][0];
    EXPECT_EQ(line["name"], "data");
    EXPECT_NEAR(line["relative_error"], std::sqrt(error / source), 1e-12);
    EXPECT_NEAR(line["sqnr_db"], 10 * std::log10(source / error), 1e-9);
    EXPECT_EQ(line["bits_per_value"], 8 + 15 * 32.0 / 1500);
    EXPECT_EQ(line["nonfinite"], 0);
    EXPECT_EQ(report["total"]["elements"], 1500);
    EXPECT_EQ(report["total"]["relative_error"], line["relative_error"]);
    EXPECT_EQ(report["spec"], "e4m3:1x128:f32");
}

TEST_F(Quantize, SharesAreCounted) {
    // Tile of 16 with amax 6: scale 1. 0.2 becomes 0 (underflow), nothing saturates; the second
    // tile is 0.
    Array array{{1, 32}, std::vector<float>(32, 0.0f)};
    array.values[0] = 6.0f;
    array.values[1] = 0.2f;
    array.values[2] = 1.0f;
    write("in.npy", npy(array));
    const json report =
        run("quantize in.npy --spec e2m1:1x16:f32 --out out.safetensors --json").json();
    EXPECT_EQ(report["total"]["underflow_share"], 1 / 32.0);
    EXPECT_EQ(report["total"]["saturated_share"], 0);
    EXPECT_NEAR(report["total"]["relative_error"], 0.2f / std::sqrt(37.04), 1e-7);
    EXPECT_EQ(report["total"]["bits_per_value"], 4 + 2 * 32.0 / 32);
}

TEST_F(Quantize, AnyRankIsSeenAsRowsAndSkippedTensorsAreListed) {
    Entries in;
    in["cube"] = {"F32", {2, 3, 4}, bytes_of(std::vector<float>(24, 1.5f))};
    in["vector"] = {"F32", {5}, bytes_of({1, 2, 3, 4, 6})};
    in["scalar"] = {"F32", {}, bytes_of({-3})};
    in["empty"] = {"F32", {0, 4}, ""};
    in["half"] = {"BF16", {1, 2}, std::string("\x80\x3f\x00\x40", 4)};  // 1, 2
    in["ids"] = {"I64", {1}, std::string(8, '\1')};
    write("in.safetensors", safetensors(in));
    const Call call =
        run("quantize in.safetensors --spec e2m1:row:f32 --out out.safetensors --json");
    ASSERT_EQ(call.exit_code, 0) << call.err;
    const Entries out = read_safetensors(read_file(path("out.safetensors")));
    EXPECT_EQ(out.size(), 15u);
    EXPECT_EQ(out.at("cube.scales").shape, (std::vector<std::int64_t>{6, 1}));
    EXPECT_EQ(out.at("cube.dequantized").shape, (std::vector<std::int64_t>{2, 3, 4}));
    EXPECT_EQ(out.at("vector.codes").shape, (std::vector<std::int64_t>{1, 3}));
    EXPECT_EQ(codes_of(out.at("vector.codes")), (std::vector<std::uint8_t>{0x42, 0x65, 0x07}));
    EXPECT_TRUE(out.at("scalar.dequantized").shape.empty());
    EXPECT_EQ(floats_of(out.at("scalar.dequantized")), std::vector<float>{-3});
    EXPECT_EQ(floats_of(out.at("half.dequantized")), (std::vector<float>{1, 2}));
    EXPECT_EQ(out.at("empty.dequantized").shape, (std::vector<std::int64_t>{0, 4}));
    int skipped = 0;
    const json report = call.json();
    for (const json& line : report["tensors"]) skipped += line.contains("skipped") ? 1 : 0;
    EXPECT_EQ(skipped, 1);
    EXPECT_NE(run("quantize in.safetensors --spec bf16 --out out.safetensors").out.find("skipped"),
              std::string::npos);
    EXPECT_EQ(read_safetensors(read_file(path("out.safetensors"))).at("half.codes").bytes,
              in["half"].bytes);
}

TEST_F(Quantize, NoiseIsAddressedBySeedAndPosition) {
    const Array array{{4, 64}, [] {
                          std::vector<float> values;
                          for (int i = 0; i < 256; ++i) values.push_back(std::sin(float(i)));
                          return values;
                      }()};
    const std::map<std::string, Array> inputs{{"a", array}, {"b", array}};
    const Entries first = quantize(inputs, "e2m1:1x16:f32:sr");
    EXPECT_NE(first.at("a.codes").bytes, first.at("b.codes").bytes);
    const Call again = run("quantize in.safetensors --spec e2m1:1x16:f32:sr --out 2.safetensors",
                           "SUBBYTE_MAX_ISA=reference OMP_NUM_THREADS=1");
    EXPECT_EQ(again.exit_code, 0);
    EXPECT_EQ(read_file(path("out.safetensors")), read_file(path("2.safetensors")));
    run("quantize in.safetensors --spec e2m1:1x16:f32:sr --out 3.safetensors --seed 1");
    EXPECT_NE(read_safetensors(read_file(path("3.safetensors"))).at("a.codes").bytes,
              first.at("a.codes").bytes);
}

TEST_F(Quantize, NanTileIsCountedAndDecodesToNan) {
    Array array{{1, 32}, std::vector<float>(32, 1.0f)};
    array.values[20] = std::nanf("");
    write("in.npy", npy(array));
    const Call call = run("quantize in.npy --spec nvfp4 --out out.safetensors --json");
    ASSERT_EQ(call.exit_code, 0) << call.err;
    const auto decoded =
        floats_of(read_safetensors(read_file(path("out.safetensors"))).at("data.dequantized"));
    EXPECT_EQ(decoded[0], 1.0f);
    EXPECT_TRUE(std::isnan(decoded[16]));
    EXPECT_EQ(call.json()["total"]["nonfinite"], 16);
}

TEST_F(Quantize, BadInputIsExitThreeAndLeavesNothing) {
    write("empty", "");
    write("junk.safetensors", "this is no tensor file at all");
    std::string cut = npy({{4, 4}, std::vector<float>(16, 1.0f)});
    cut.pop_back();
    write("cut.npy", cut);
    write("cut_header.npy", std::string("\x93NUMPY\x01\x00\xff", 9));
    for (const std::string file :
         {"missing.npy", "empty", "junk.safetensors", "cut.npy", "cut_header.npy", "."}) {
        expect_error(run("quantize " + file + " --spec nvfp4 --out out.safetensors"), 3, file);
    }
    EXPECT_EQ(file_count(), 4u);
    write("good.npy", npy({{1, 4}, {1, 2, 3, 4}}));
    expect_error(run("quantize good.npy --spec nvfp4 --out no/such/folder/out"), 3,
                 "no/such/folder");
}

TEST_F(Quantize, UnknownSpecPointsAtTheCharacter) {
    write("good.npy", npy({{1, 4}, {1, 2, 3, 4}}));
    const Call call = run("quantize good.npy --spec e2m1:1x16:ue4m4 --out out.safetensors");
    EXPECT_EQ(call.exit_code, 2);
    EXPECT_EQ(call.out, "");
    EXPECT_TRUE(call.err.starts_with("error: ")) << call.err;
    EXPECT_NE(call.err.find("e2m1:1x16:ue4m4\n              ^"), std::string::npos) << call.err;
    EXPECT_NE(call.err.find("\n  hint: "), std::string::npos) << call.err;
    expect_error(run("quantize good.npy --spec nvfp4"), 2, "--out");
    expect_error(run("quantize good.npy --spec nvfp4 --out o --seed -1"), 2, "seed");
    EXPECT_EQ(file_count(), 1u);
}

TEST_F(Quantize, CompareGivesTheNumbersOfEachSpecAlone) {
    Entries in;
    std::vector<float> values;
    for (int i = 0; i < 2 * 3 * 40; ++i) values.push_back(std::sin(1.7f * float(i)) * float(i % 7));
    in["a.weight"] = {"F32", {6, 40}, bytes_of(values)};
    in["b.weight"] = {"F32", {2, 3, 40}, bytes_of(values)};
    in["ids"] = {"I64", {1}, std::string(8, '\1')};
    write("in.safetensors", safetensors(in));
    const std::vector<std::string> specs{"mxfp4", "nvfp4:sr", "e2m3:row:f32:rht16", "nf4:1x64:f32",
                                         "nvfp4:rht16fresh:mseden"};
    std::string list;
    for (const std::string& spec : specs) list += (list.empty() ? "" : ",") + spec;
    const Call call = run("quantize in.safetensors --compare " + list + " --seed 3 --json");
    ASSERT_EQ(call.exit_code, 0) << call.err;
    const json report = call.json();
    EXPECT_EQ(report["specs"]["mxfp4"], "e2m1:1x32:e8m0/floor");
    ASSERT_EQ(report["tensors"].size(), 3u);
    EXPECT_TRUE(report["tensors"][2].contains("skipped"));
    EXPECT_EQ(file_count(), 1u);  // nothing is written
    for (const std::string& spec : specs) {
        const json alone =
            run("quantize in.safetensors --spec " + spec + " --seed 3 --out out.safetensors --json")
                .json();
        for (int i = 0; i < 2; ++i) {
            const json& both = report["tensors"][i]["specs"][spec];
            EXPECT_EQ(report["tensors"][i]["name"], alone["tensors"][i]["name"]);
            for (const char* key :
                 {"relative_error", "saturated_share", "underflow_share", "bits_per_value"}) {
                EXPECT_NEAR(both[key].get<double>(), alone["tensors"][i][key].get<double>(), 1e-12)
                    << spec << " " << key;
            }
        }
        EXPECT_NEAR(report["total"][spec]["relative_error"].get<double>(),
                    alone["total"]["relative_error"].get<double>(), 1e-12)
            << spec;
    }
    const Call table = run("quantize in.safetensors --compare mxfp4,nvfp4");
    EXPECT_EQ(table.exit_code, 0) << table.err;
    for (const char* part : {"a.weight", "skipped", "total", "bits/value", "4.4000"}) {
        EXPECT_NE(table.out.find(part), std::string::npos) << part << table.out;
    }
}

TEST_F(Quantize, CompareReadsModelFolders) {
    Entries in;
    in["layer.weight"] = {"F32", {2, 4}, bytes_of({1, 2, 3, 4, -1, -2, -3, 6})};
    std::filesystem::create_directories(path("model"));
    write("model/model.safetensors", safetensors(in));
    const Call call = run("quantize model --compare e2m1:row:f32,int8:row:f32 --json");
    ASSERT_EQ(call.exit_code, 0) << call.err;
    const json report = call.json();
    EXPECT_EQ(report["tensors"][0]["name"], "layer.weight");
    EXPECT_NEAR(report["total"]["int8:row:f32"]["bits_per_value"].get<double>(), 16, 1e-12);
}

TEST_F(Quantize, CompareRefusesWhatItWouldIgnore) {
    write("good.npy", npy({{1, 2}, {1, 2}}));
    expect_error(run("quantize good.npy --compare fp8 --spec fp4"), 2, "--compare");
    expect_error(run("quantize good.npy --compare fp8 --out o.safetensors"), 2, "--compare");
    expect_error(run("quantize good.npy --out o.safetensors"), 2, "--spec");
    expect_error(run("quantize missing.npy --compare fp8"), 3, "missing.npy");
    const Call call = run("quantize good.npy --compare fp8,e2m1:1x16:ue4m4");
    EXPECT_EQ(call.exit_code, 2);
    EXPECT_NE(call.err.find("character 11"), std::string::npos) << call.err;
}

}  // namespace
}  // namespace subbyte::testing
