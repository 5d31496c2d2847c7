// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/safetensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "io_test_util.h"
#include "tests/refuses.h"

namespace subbyte::io {
namespace {

const std::filesystem::path kGolden = SUBBYTE_GOLDEN_DIR;

std::string bytes_of(const at::Tensor& tensor) {
    const at::Tensor dense = tensor.contiguous();
    return {static_cast<const char*>(dense.data_ptr()), dense.nbytes()};
}

// Random bits in any dtype.
at::Tensor random_bits(at::IntArrayRef shape, at::ScalarType type) {
    at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(type));
    const at::Tensor bits = at::randint(0, type == at::kBool ? 2 : 256,
                                        {static_cast<std::int64_t>(tensor.nbytes())}, at::kByte);
    std::copy_n(bits.const_data_ptr<std::uint8_t>(), bits.numel(),
                static_cast<std::uint8_t*>(tensor.data_ptr()));
    return tensor;
}

TEST(Safetensors, ReadsWhatPythonWrote) {
    const auto json = nlohmann::json::parse(read_bytes(kGolden / "llama_tiny.json"));
    const auto file = SafetensorsFile::open(kGolden / "llama_tiny_grads.safetensors");
    ASSERT_EQ(file.tensors().size(), json["parameters"].size());
    for (const auto& parameter : json["parameters"]) {
        const auto name = parameter["name"].get<std::string>();
        const at::Tensor grad = file.load(name);
        EXPECT_EQ(grad.sizes().vec(), parameter["shape"].get<std::vector<std::int64_t>>());
        ASSERT_EQ(grad.scalar_type(), at::kFloat);
        double sum = 0;
        for (std::int64_t i = 0; i < grad.numel(); ++i) {
            const double x = grad.const_data_ptr<float>()[i];
            sum += x * x;
        }
        const double norm = parameter["grad_norm"];
        EXPECT_NEAR(std::sqrt(sum), norm, 1e-6 * norm) << name;
    }
    EXPECT_EQ(SafetensorsFile::open(kGolden / "llama_tiny_weights.safetensors").metadata(),
              (Metadata{{"format", "pt"}}));
}

TEST(Safetensors, WritesTheBytesThatPythonWrote) {
    const TempFolder folder;
    for (const char* name : {"llama_tiny_weights", "gpt2_tiny_weights", "resnet_tiny_weights"}) {
        const auto golden = kGolden / (std::string(name) + ".safetensors");
        const auto file = SafetensorsFile::open(golden);
        NamedTensors tensors = file.load_all();
        std::reverse(tensors.begin(), tensors.end());
        const WrittenFile written = save_safetensors(folder / "x", tensors, file.metadata());
        EXPECT_EQ(read_bytes(folder / "x"), read_bytes(golden)) << name;
        EXPECT_EQ(written.bytes, std::filesystem::file_size(golden));
        EXPECT_EQ(written.checksum, checksum_of(read_bytes(golden)));
    }
    EXPECT_EQ(count_entries(folder.path()), 1u);
}

TEST(Safetensors, EveryDtypeAndShapeSurvives) {
    const TempFolder folder;
    NamedTensors tensors;
    for (const SafetensorsDtype& dtype : safetensors_dtypes()) {
        const std::string name(dtype.name);
        tensors.emplace_back(name + ".matrix", random_bits({3, 5}, dtype.type));
        tensors.emplace_back(name + ".empty", random_bits({0, 4}, dtype.type));
        if (dtype.bits >= 8) tensors.emplace_back(name + ".scalar", random_bits({}, dtype.type));
    }
    save_safetensors(folder / "x", tensors);
    const auto file = SafetensorsFile::open(folder / "x");
    ASSERT_EQ(file.tensors().size(), tensors.size());
    for (const auto& [name, tensor] : tensors) {
        const at::Tensor loaded = file.load(name);
        EXPECT_EQ(loaded.sizes(), tensor.sizes()) << name;
        EXPECT_EQ(loaded.scalar_type(), tensor.scalar_type()) << name;
        EXPECT_EQ(bytes_of(loaded), bytes_of(tensor)) << name;
        const TensorInfo& info = file.info(name);
        EXPECT_EQ(info.dtype, name.substr(0, name.find('.')));
        EXPECT_EQ(info.begin * 8 % std::max(find_dtype(info.dtype)->bits, 8), 0u) << name;
    }
    // The header counts elements, memory holds pairs.
    EXPECT_EQ(file.info("F4.matrix").shape, (std::vector<std::int64_t>{3, 10}));
    EXPECT_EQ(file.info("F4.matrix").bytes(), 15u);
}

TEST(Safetensors, WritesViewsAndRequiresGrad) {
    const TempFolder folder;
    const at::Tensor base = at::arange(24, at::kFloat).view({4, 6});
    const at::Tensor transposed = base.t();
    const at::Tensor part = base.narrow(1, 1, 3);
    const at::Tensor same = base.narrow(0, 0, 1).expand({3, 6});
    at::Tensor trained = base.clone();
    trained.requires_grad_(true);
    save_safetensors(folder / "x",
                     {{"t", transposed}, {"part", part}, {"same", same}, {"trained", trained}});
    const auto file = SafetensorsFile::open(folder / "x");
    EXPECT_TRUE(file.load("t").equal(transposed));
    EXPECT_TRUE(file.load("part").equal(part));
    EXPECT_TRUE(file.load("same").equal(same));
    EXPECT_TRUE(file.load("trained").equal(base));
    EXPECT_FALSE(file.load("trained").requires_grad());
}

TEST(Safetensors, RawEntriesKeepDtypeAndBytes) {
    const TempFolder folder;
    const std::string codes = "\x01\x23\x45\x67\x89\xab";
    const std::vector<RawTensor> raw{
        {"codes", "F4", {2, 6}, std::as_bytes(std::span(codes))},
        {"scales", "F8_E8M0", {2}, std::as_bytes(std::span(codes).first(2))}};
    save_safetensors(folder / "x", {{"w", at::zeros({2})}}, {{"k", "v \"x\""}}, raw);
    const auto file = SafetensorsFile::open(folder / "x");
    std::string read(6, '\0');
    file.read_bytes("codes", std::as_writable_bytes(std::span(read)));
    EXPECT_EQ(read, codes);
    EXPECT_EQ(file.info("codes").shape, (std::vector<std::int64_t>{2, 6}));
    EXPECT_EQ(file.load("codes").sizes(), (at::IntArrayRef{2, 3}));
    EXPECT_EQ(bytes_of(file.load("scales")), codes.substr(0, 2));
    EXPECT_EQ(file.metadata().at("k"), "v \"x\"");
    error_of(ErrorCode::kUsage,
             [&] { file.read_bytes("scales", std::as_writable_bytes(std::span(read))); });
}

TEST(Safetensors, RefusesWhatCannotBeSaved) {
    const TempFolder folder;
    const std::byte bytes[8]{};
    const auto refuse = [&](const NamedTensors& tensors, const std::vector<RawTensor>& raw = {}) {
        return error_of(ErrorCode::kUsage,
                        [&] { save_safetensors(folder / "x", tensors, {}, raw); });
    };
    const at::Tensor one = at::zeros({1});
    EXPECT_NE(refuse({{"a", one}, {"a", one}}).find("'a' is used twice"), std::string::npos);
    EXPECT_NE(refuse({{"__metadata__", one}}).find("reserved"), std::string::npos);
    EXPECT_NE(refuse({{"gone", at::Tensor()}}).find("'gone'"), std::string::npos);
    EXPECT_NE(refuse({{"c", at::zeros({1}, at::kComplexFloat)}}).find("ComplexFloat"),
              std::string::npos);
    EXPECT_NE(refuse({{"bad \xff name", one}}).find("UTF-8"), std::string::npos);
    EXPECT_NE(refuse({}, {{"r", "F32", {3}, bytes}}).find("12 bytes, 8 were given"),
              std::string::npos);
    EXPECT_NE(refuse({}, {{"r", "F33", {2}, bytes}}).find("'F33'"), std::string::npos);
    EXPECT_NE(refuse({}, {{"r", "F4", {4, 3}, std::span(bytes).first(6)}}).find("multiple of 2"),
              std::string::npos);
    EXPECT_NE(refuse({}, {{"r", "U8", {-8}, bytes}}).find("negative"), std::string::npos);
    EXPECT_EQ(count_entries(folder.path()), 0u);
}

TEST(Safetensors, MissingTensorNamesTheNearest) {
    const auto file = SafetensorsFile::open(kGolden / "llama_tiny_weights.safetensors");
    try {
        file.load("lm_haed.weight");
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kData);
        EXPECT_EQ(error.hint(), "did you mean 'lm_head.weight'?");
    }
}

TEST(Safetensors, FullDiskKeepsTheOldFile) {
    const TempFolder folder;
    save_safetensors(folder / "x", {{"w", at::full({4}, 7.0)}});
    const std::string before = read_bytes(folder / "x");
    std::string message;
    {
        const FileSizeLimit limit(64 * 1024);
        message = error_of(ErrorCode::kData, [&] {
            save_safetensors(folder / "x", {{"w", at::zeros({100000})}});
        });
    }
    EXPECT_NE(message.find((folder / "x").string()), std::string::npos) << message;
    // 8 + header padded to 64 + data
    EXPECT_NE(message.find("400072 bytes are needed"), std::string::npos) << message;
    EXPECT_EQ(read_bytes(folder / "x"), before);
    EXPECT_EQ(count_entries(folder.path()), 1u);
}

TEST(Safetensors, RefusesPathsThatAreNoFiles) {
    const TempFolder folder;
    EXPECT_TRUE(refuses(
        ErrorCode::kData, [&] { SafetensorsFile::open(folder / "no"); }, "No such file"));
    EXPECT_TRUE(refuses(
        ErrorCode::kData, [&] { SafetensorsFile::open(folder.path()); }, "is a folder"));
    EXPECT_TRUE(refuses(
        ErrorCode::kData, [&] { save_safetensors(folder / "no" / "x", {}); },
        (folder / "no" / "x").string()));
}

TEST(Safetensors, FileCutWhileOpenIsAnError) {
    const TempFolder folder;
    save_safetensors(folder / "x", {{"w", at::zeros({1000})}});
    const auto file = SafetensorsFile::open(folder / "x");
    std::filesystem::resize_file(folder / "x", 500);
    EXPECT_TRUE(refuses(
        ErrorCode::kData, [&] { file.load("w"); }, "ends at byte 500"));
}

}  // namespace
}  // namespace subbyte::io
