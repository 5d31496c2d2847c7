// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/npy.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "io_test_util.h"

namespace subbyte::io {
namespace {

using namespace std::string_literals;

// The bytes of numpy.lib.format.write_array of NumPy 2, header padded to `total` bytes.
std::string numpy(const std::string& version, const std::string& dict, const std::string& data,
                  std::size_t total = 128) {
    const std::size_t prefix = 6 + version.size();
    return "\x93NUMPY" + version + dict + std::string(total - prefix - dict.size() - 1, ' ') +
           "\n" + data;
}

const std::string kFloats =
    numpy("\x01\x00v\x00"s, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
          "\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@\x00\x00\xa0@\x00\x00\x00\xbf"s);
const std::string kFortran = numpy(
    "\x01\x00v\x00"s, "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }",
    "\0\0\0\0\0\0\xf0?\0\0\0\0\0\0\x10@\0\0\0\0\0\0\0@\0\0\0\0\0\0\x14@\0\0\0\0\0\0\x08@\0\0\0\0\0\0\x18@"s);
const std::string kScalar =
    numpy("\x01\x00v\x00"s, "{'descr': '<i2', 'fortran_order': False, 'shape': (), }", "\xf9\xff");
const std::string kEmpty =
    numpy("\x01\x00v\x00"s, "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 4), }", "");
const std::string kBools = numpy(
    "\x01\x00v\x00"s, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", "\x01\x00\x01"s);
const std::string kVersion2 =
    numpy("\x02\x00t\x00\x00\x00"s, "{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }",
          "\x00\x38\xff\x7b"s);

at::Tensor floats() { return at::tensor({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, -0.5F}).view({2, 3}); }
at::Tensor doubles() {
    return at::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, at::kDouble).view({2, 3});
}

class Npy : public ::testing::Test {
protected:
    at::Tensor read(const std::string& bytes) {
        write_bytes(folder_ / "x.npy", bytes);
        return read_npy(folder_ / "x.npy");
    }
    std::string refused(const std::string& bytes) {
        const std::string message = error_of(ErrorCode::kData, [&] { read(bytes); });
        EXPECT_NE(message.find("x.npy"), std::string::npos);
        return message;
    }
    std::string written(const at::Tensor& tensor) {
        write_npy(folder_ / "y.npy", tensor);
        return read_bytes(folder_ / "y.npy");
    }
    TempFolder folder_;
};

TEST_F(Npy, ReadsWhatNumPyWrote) {
    EXPECT_TRUE(read(kFloats).equal(floats()));
    EXPECT_TRUE(read(kFortran).equal(doubles()));
    EXPECT_TRUE(read(kFortran).is_contiguous());
    EXPECT_EQ(read(kScalar).dim(), 0);
    EXPECT_EQ(read(kScalar).item<int>(), -7);
    EXPECT_EQ(read(kEmpty).sizes(), (at::IntArrayRef{0, 4}));
    EXPECT_TRUE(read(kBools).equal(at::tensor({1, 0, 1}).to(at::kBool)));
    const at::Tensor halves = read(kVersion2);
    EXPECT_EQ(halves.scalar_type(), at::kHalf);
    EXPECT_TRUE(halves.to(at::kFloat).equal(at::tensor({0.5F, 65504.0F})));
}

TEST_F(Npy, WritesTheBytesThatNumPyWrote) {
    EXPECT_EQ(written(floats()), kFloats);
    EXPECT_EQ(written(doubles().t().contiguous().t()), kFortran);
    EXPECT_EQ(written(at::full({}, -7, at::kShort)), kScalar);
    EXPECT_EQ(written(at::zeros({0, 4}, at::kByte)), kEmpty);
    EXPECT_EQ(written(at::tensor({1, 0, 1}).to(at::kBool)), kBools);
}

TEST_F(Npy, EveryDtypeAndViewSurvives) {
    for (const at::ScalarType type :
         {at::kHalf, at::kFloat, at::kDouble, at::kChar, at::kShort, at::kInt, at::kLong, at::kByte,
          at::kUInt16, at::kUInt32, at::kUInt64}) {
        const at::Tensor values = at::arange(24, at::kFloat).view({2, 3, 4}).to(type);
        for (const at::Tensor& view : {values, values.permute({2, 1, 0}), values.transpose(0, 1)}) {
            const at::Tensor loaded = read(written(view));
            EXPECT_EQ(loaded.scalar_type(), type);
            EXPECT_TRUE(loaded.to(at::kFloat).equal(view.to(at::kFloat))) << c10::toString(type);
        }
    }
    error_of(ErrorCode::kUsage, [&] { written(at::zeros({2}, at::kBFloat16)); });
    error_of(ErrorCode::kUsage, [&] { written(at::Tensor()); });
}

TEST_F(Npy, RefusesDamagedFiles) {
    EXPECT_NE(refused("").find("0 bytes"), std::string::npos);
    EXPECT_NE(refused("PK\x03\x04 not an array").find("not a .npy"), std::string::npos);
    EXPECT_NE(refused(kFloats.substr(0, kFloats.size() - 1)).find("24 bytes, the file holds 23"),
              std::string::npos);
    EXPECT_NE(refused(kFloats + "x").find("24 bytes, the file holds 25"), std::string::npos);
    EXPECT_NE(refused(kFloats.substr(0, 60)).find("header length 118"), std::string::npos);
    std::string version = kFloats;
    version[6] = 9;
    EXPECT_NE(refused(version).find("version 9"), std::string::npos);
}

TEST_F(Npy, RefusesHeadersItDoesNotUnderstand) {
    const auto header = [&](const std::string& dict) {
        return refused(numpy("\x01\x00v\x00"s, dict, ""));
    };
    const std::string rest = "'fortran_order': False, 'shape': (0,), }";
    EXPECT_NE(header("{'descr': '>f4', " + rest).find("'>f4'"), std::string::npos);
    EXPECT_NE(header("{'descr': '<c8', " + rest).find("'<c8'"), std::string::npos);
    EXPECT_NE(header("{'descr': [('a', '<f4')], " + rest).find("character 10"), std::string::npos);
    EXPECT_NE(header("{'extra': 1, 'descr': '<f4', " + rest).find("'extra'"), std::string::npos);
    EXPECT_NE(header("{'descr': '<f4', 'descr': '<f4', " + rest).find("twice"), std::string::npos);
    EXPECT_NE(header("{'descr': '<f4', 'shape': (0,)}").find("must be given"), std::string::npos);
    EXPECT_NE(header("{'descr': '<f4', 'fortran_order': 1, 'shape': ()}").find("True or False"),
              std::string::npos);
    EXPECT_NE(header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}").find("dimension"),
              std::string::npos);
    EXPECT_NE(header("{'descr': '<f4', 'fortran_order': False, 'shape': (3)}").find("','"),
              std::string::npos);
    EXPECT_NE(header("{'descr': '<f4', 'fortran_order': False, 'shape': (0,)} x").find("follows"),
              std::string::npos);
    EXPECT_NE(header("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}")
                  .find("2^63"),
              std::string::npos);
    EXPECT_NE(header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}")
                  .find("2^63"),
              std::string::npos);
    EXPECT_TRUE(read(numpy("\x01\x00v\x00"s,
                           "{\"shape\":(0,2,),\"descr\":\"<f4\",\"fortran_order\":True}", ""))
                    .equal(at::zeros({0, 2})));
}

TEST_F(Npy, FullDiskLeavesNothing) {
    std::string message;
    {
        const FileSizeLimit limit(1024);
        message = error_of(ErrorCode::kData, [&] { written(at::zeros({1000})); });
    }
    EXPECT_NE(message.find("4128 bytes are needed"), std::string::npos) << message;
    EXPECT_EQ(count_entries(folder_.path()), 0u);
}

TEST_F(Npy, Fuzz) {
    for (const std::string& valid : {kFloats, kFortran, kBools, kVersion2}) {
        fuzz(valid, 72, 2000, folder_ / "x.npy",
             [](const std::filesystem::path& path) { read_npy(path); });
    }
}

}  // namespace
}  // namespace subbyte::io
