// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Files whose header does not deserve to be believed.
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "io_test_util.h"
#include "subbyte/core/clock.h"
#include "subbyte/io/safetensors.h"
#include "tests/refuses.h"

namespace subbyte::io {
namespace {

std::string with_length(std::uint64_t length, const std::string& rest) {
    std::string bytes(8, '\0');
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
    return bytes + rest;
}

std::string file_of(const std::string& header, std::size_t data_bytes) {
    return with_length(header.size(), header + std::string(data_bytes, '\x3f'));
}

// One tensor `t`.
std::string tensor(const std::string& shape, const std::string& offsets, std::size_t data_bytes,
                   const std::string& dtype = "F32") {
    return file_of(R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
                       offsets + "}}",
                   data_bytes);
}

void load_all(const std::filesystem::path& path) { SafetensorsFile::open(path).load_all(); }

long peak_kib() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

class Hostile : public ::testing::Test {
protected:
    // Refused quickly, without memory, with all the words in one message.
    void refused(const std::string& bytes, const std::vector<std::string>& words) {
        write_bytes(folder_ / "x.safetensors", bytes);
        const long before = peak_kib();
        const Stopwatch watch;
        const std::string message =
            error_of(ErrorCode::kData, [&] { load_all(folder_ / "x.safetensors"); });
        EXPECT_LT(watch.seconds(), 1.0);
        EXPECT_LT(peak_kib() - before, 16 * 1024);
        EXPECT_NE(message.find("x.safetensors"), std::string::npos) << message;
        for (const std::string& word : words) {
            EXPECT_NE(message.find(word), std::string::npos) << message << "\n  lacks " << word;
        }
    }
    SafetensorsFile accepted(const std::string& bytes) {
        write_bytes(folder_ / "x.safetensors", bytes);
        return SafetensorsFile::open(folder_ / "x.safetensors");
    }
    TempFolder folder_;
};

TEST_F(Hostile, RangesThatDoNotFit) {
    refused(tensor("[1000,1000]", "[0,4]", 4), {"'t'", "4000000", "give 4"});
    refused(tensor("[1]", "[4,0]", 4), {"'t'", "[4, 0]", "backwards"});
    refused(tensor("[1]", "[-4,0]", 4), {"'t'", "data_offsets", "-4 is negative"});
    refused(tensor("[1]", "[0,4,8]", 4), {"'t'", "data_offsets", "3 numbers", "2 expected"});
    refused(tensor("[1]", "[4]", 4), {"'t'", "1 numbers", "2 expected"});
    refused(tensor("[16]", "[0,64]", 32), {"'t'", "[0, 64]", "32 bytes"});
    refused(tensor("[1]", "[18446744073709551612,18446744073709551615]", 4),
            {"'t'", "larger than"});
    refused(tensor("[1]", "[0,99999999999999999999]", 4), {"'t'", "whole number"});
    refused(tensor("[1]", "[0,4.0]", 4), {"'t'", "4.0"});
}

TEST_F(Hostile, OverlapsAndHoles) {
    const auto two = [](const std::string& first, const std::string& second, std::size_t bytes) {
        return file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" + first +
                           R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)" + second + "}}",
                       bytes);
    };
    refused(two("[0,8]", "[4,12]", 12), {"'b'", "byte 4", "'a'", "byte 8", "4 bytes overlap"});
    refused(two("[0,8]", "[0,8]", 8), {"8 bytes overlap"});
    refused(two("[0,8]", "[12,20]", 20), {"'b'", "12", "'a'", "8", "4 bytes belong to no tensor"});
    refused(two("[4,12]", "[12,20]", 20), {"'a'", "4 bytes belong to no tensor"});
    refused(two("[0,8]", "[8,16]", 20), {"16", "20", "4 bytes belong to no tensor"});
    refused(file_of("{}", 4), {"4 bytes belong to no tensor"});
    EXPECT_EQ(accepted(two("[8,16]", "[0,8]", 16)).tensors()[0].name, "b");
}

TEST_F(Hostile, ShapesThatOverflow) {
    refused(tensor("[4611686018427387904,4]", "[0,16]", 16),
            {"'t'", "4611686018427387904, 4", "[0, 16]", "2^63"});
    refused(tensor("[4611686018427387904,4611686018427387904,0]", "[0,0]", 0), {"'t'", "2^63"});
    refused(tensor("[9223372036854775808]", "[0,4]", 4), {"'t'", "9223372036854775808"});
    refused(tensor("[-1]", "[0,4]", 4), {"'t'", "shape", "-1 is negative"});
    refused(tensor("[3]", "[0,3]", 3, "F4"), {"'t'", "multiple of 2"});
    refused(tensor("[2,3]", "[0,3]", 3, "F4"), {"'t'", "multiple of 2"});
    refused(tensor("[]", "[0,0]", 0, "F4"), {"'t'", "multiple of 2"});
    std::string ones = "[1";
    for (int i = 0; i < 64; ++i) ones += ",1";
    refused(tensor(ones + "]", "[0,4]", 4), {"'t'", "65 dimensions", "64"});
}

TEST_F(Hostile, HeaderLengths) {
    const std::string good = tensor("[1]", "[0,4]", 4).substr(8);
    refused(with_length(~std::uint64_t{0}, good), {"18446744073709551615"});
    refused(with_length(~std::uint64_t{7}, good), {"18446744073709551608"});
    refused(with_length(good.size() + 8 - 7, good), {std::to_string(good.size() + 1)});
    refused(with_length(0, good), {"header length 0"});
    refused("1234567", {"7 bytes", "8"});
    refused("", {"0 bytes", "8"});
    refused(with_length(200'000'000, good), {"200000000"});
}

TEST_F(Hostile, HeadersThatAreNotTheFormat) {
    const auto entry = [&](const std::string& members) {
        return file_of(R"({"t":{)" + members + "}}", 4);
    };
    const std::string dtype = R"("dtype":"F32")", shape = R"("shape":[1])",
                      range = R"("data_offsets":[0,4])";
    refused(file_of("[]", 0), {"JSON object"});
    refused(file_of(" {}", 0), {"JSON object"});
    refused(file_of("{} x", 0), {"JSON object"});
    refused(file_of(std::string("{}\0\0}", 5), 0), {"JSON object"});
    refused(file_of("{]}", 0), {"column 2"});
    refused(file_of("{}}", 0), {"column 3"});
    refused(tensor("[1]", "[0,4]", 4, "F33"), {"'t'", "'F33'"});
    refused(tensor("[1]", "[0,4]", 4, "\xff"), {"header"});
    refused(entry(dtype + "," + shape), {"'t'", "data_offsets must be given"});
    refused(entry(dtype + "," + shape + "," + range + "," + shape), {"'t'", "shape", "twice"});
    refused(entry(dtype + "," + shape + "," + range + R"(,"x":1)"), {"'t'", "x", "format"});
    refused(entry(dtype + "," + shape + R"(,"data_offsets":null)"),
            {"'t'", "data_offsets", "null"});
    refused(entry(R"("dtype":["F32"])"), {"'t'", "dtype"});
    refused(entry(R"("shape":[[1]])"), {"'t'", "shape"});
    refused(entry(R"("shape":["1"])"), {"'t'", "shape"});
    refused(entry(R"("shape":{"a":1})"), {"'t'", "shape"});
    refused(entry(R"("shape":[true])"), {"'t'", "shape"});
    refused(file_of(R"({"t":5})", 0), {"'t'", "5"});
    refused(file_of(R"({"t":[]})", 0), {"'t'"});
    const std::string t = R"("t":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
    refused(file_of("{" + t + "," + t + "}", 0), {"'t'", "twice"});
    refused(file_of(R"({"__metadata__":{"a":1}})", 0), {"__metadata__", "a"});
    refused(file_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0), {"__metadata__", "twice"});
    refused(file_of(R"({"__metadata__":{"a":{}}})", 0), {"__metadata__", "a"});
    refused(file_of(R"({"t":)" + std::string(1'000'000, '[') + "}", 0), {"'t'"});
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += R"({"a":)";
    refused(file_of(deep + "}", 0), {"'a'"});
}

TEST_F(Hostile, OddButGoodFiles) {
    EXPECT_EQ(accepted(tensor("[]", "[0,4]", 4)).load("t").dim(), 0);
    EXPECT_EQ(accepted(tensor("[0,4]", "[0,0]", 0)).load("t").sizes(), (at::IntArrayRef{0, 4}));
    EXPECT_EQ(accepted(file_of("{}", 0)).tensors().size(), 0u);
    EXPECT_EQ(accepted(file_of("{}      ", 0)).tensors().size(), 0u);
    EXPECT_EQ(accepted(file_of(R"({"__metadata__":{}})", 0)).metadata().size(), 0u);
    EXPECT_EQ(accepted(tensor("[2,0]", "[0,0]", 0, "F4")).load("t").sizes(),
              (at::IntArrayRef{2, 0}));
    save_safetensors(folder_ / "y", {{"t", at::zeros({0, 4})}});
    EXPECT_EQ(SafetensorsFile::open(folder_ / "y").load("t").sizes(), (at::IntArrayRef{0, 4}));
}

TEST_F(Hostile, BoolsAreChecked) {
    const SafetensorsFile file = accepted(tensor("[4]", "[0,4]", 4, "BOOL"));
    EXPECT_TRUE(refuses(
        ErrorCode::kData, [&] { file.load("t"); }, "byte 0 is 63"));
}

TEST_F(Hostile, Fuzz) {
    const NamedTensors tensors{{"layers.0.w", at::arange(24, at::kFloat).view({4, 6})},
                               {"b", at::zeros({3}, at::kBool)},
                               {"n", at::zeros({}, at::kLong)}};
    save_safetensors(folder_ / "good", tensors, {{"format", "pt"}});
    const std::string good = read_bytes(folder_ / "good");
    fuzz(good, good.size() - 108, 6000, folder_ / "x.safetensors", load_all);
}

}  // namespace
}  // namespace subbyte::io
