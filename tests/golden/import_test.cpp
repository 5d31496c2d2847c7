// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Files of the Python package gguf, and a LLaMA made of one against Hugging Face's transformers.
// Made by make_import.py and make_import_spm.py.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "subbyte/io/gguf.h"
#include "subbyte/train/import_gguf.h"
#include "subbyte/train/text_evaluation.h"
#include "subbyte/train/training_data.h"
#include "tests/temp_folder.h"

namespace subbyte::train {
namespace {

namespace fs = std::filesystem;

const fs::path kData = SUBBYTE_GOLDEN_DIR;

nlohmann::json golden(const char* name) {
    return nlohmann::json::parse(std::ifstream(kData / name));
}

TEST(ImportGguf, EveryStorageTypeGivesTheBitsOfThePackage) {
    const io::GgufFile file = io::GgufFile::open(kData / "import_types.gguf");
    const nlohmann::json expected = golden("import_types.json");
    ASSERT_EQ(expected.size(), 11u);
    for (const auto& [name, hex] : expected.items()) {
        EXPECT_EQ(file.info(name).type->name, name);
        const at::Tensor got = file.load(name);
        ASSERT_EQ(got.sizes(), (std::vector<std::int64_t>{2, 256}));
        const std::string text = hex;
        for (std::size_t i = 0; i < 512; ++i) {
            const auto bits = std::bit_cast<std::uint32_t>(got.data_ptr<float>()[i]);
            ASSERT_EQ(bits, std::stoul(text.substr(8 * i, 8), nullptr, 16)) << name << " " << i;
        }
    }
}

TEST(ImportGguf, EveryKindOfMetadataIsRead) {
    const io::GgufFile file = io::GgufFile::open(kData / "import_types.gguf");
    const io::GgufMetadata& keys = file.metadata();
    EXPECT_EQ(file.version(), 3u);
    EXPECT_EQ(keys.integer("u8"), 200);
    EXPECT_EQ(keys.integer("i8"), -100);
    EXPECT_EQ(keys.integer("u16"), 60000);
    EXPECT_EQ(keys.integer("i16"), -30000);
    EXPECT_EQ(keys.integer("u32"), 4000000000);
    EXPECT_EQ(keys.integer("i32"), -2000000000);
    EXPECT_EQ(keys.integer("i64"), -(std::int64_t{1} << 62));
    EXPECT_EQ(keys.number("u64"), 9223372036854775808.0);
    EXPECT_EQ(keys.number("f32"), static_cast<double>(0.1f));
    EXPECT_EQ(keys.number("f64"), 0.1);
    EXPECT_EQ(keys.find_boolean("b"), true);
    EXPECT_EQ(keys.find_boolean("absent"), std::nullopt);
    EXPECT_EQ(keys.text("text"), "gr\xC3\xBC\xC3\x9F");
    EXPECT_EQ(keys.texts("texts"), (std::vector<std::string>{"a", "", "\xE4\xBD\xA0"}));
    EXPECT_EQ(keys.integers("i32s"), (std::vector<std::int64_t>{1, -2, 3}));
}

TEST(ImportGguf, SentencePieceTokenizersGiveTheIdsOfTheLibrary) {
    const nlohmann::json expected = golden("import_spm.json");
    const subbyte::TempFolder folder;
    const std::string out = (folder.path() / "m").string();
    const GgufImport report = import_gguf((kData / "import_spm.gguf").string(), out);
    EXPECT_EQ(report.tokenizer, "SentencePiece");
    EXPECT_EQ(report.tokens, 420);
    EXPECT_FALSE(fs::exists(fs::path(out) / "tokenizer.json"));
    const data::TokenizerPtr tokenizer = load_tokenizer(out);
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(tokenizer->bos_id(), 1);
    EXPECT_EQ(tokenizer->eos_id(), 2);
    ASSERT_EQ(expected["texts"].size(), 19u);
    for (std::size_t i = 0; i < expected["texts"].size(); ++i) {
        const std::string text = expected["texts"][i];
        const auto ids = expected["ids"][i].get<std::vector<std::int32_t>>();
        EXPECT_EQ(tokenizer->encode(text), ids) << text;
        EXPECT_EQ(tokenizer->decode(ids), expected["decoded"][i].get<std::string>());
    }
}

class ImportedLlama : public ::testing::Test {
protected:
    ImportedLlama() { report_ = import_gguf((kData / "import_llama.gguf").string(), out()); }
    std::string out() const { return (folder_ / "m").string(); }

    subbyte::TempFolder folder_;
    GgufImport report_;
};

TEST_F(ImportedLlama, ComputesTheLogitsOfTransformers) {
    const nlohmann::json expected = golden("import_llama.json");
    EvaluationModel loaded = load_for_evaluation(out(), "fp32", "");
    const auto ids = expected["input_ids"].get<std::vector<std::int64_t>>();
    at::NoGradGuard no_grad;
    const at::Tensor logits = loaded.model->forward(at::tensor(ids).unsqueeze(0))[0];
    double worst = 0;
    for (std::size_t t = 0; t < ids.size(); ++t) {
        const auto row = expected["logits"][t].get<std::vector<float>>();
        ASSERT_EQ(static_cast<std::int64_t>(row.size()), logits.size(1));
        worst = std::max(
            worst,
            (logits[static_cast<std::int64_t>(t)] - at::tensor(row)).abs().max().item<double>());
    }
    EXPECT_LT(worst, 2e-5);  // logits of about 3, kept with 6 decimals
    EXPECT_GT(logits.abs().max().item<double>(), 1);
}

TEST_F(ImportedLlama, TokenizesAsTheTokenizerItWasMadeOf) {
    const nlohmann::json expected = golden("import_llama.json");
    const data::TokenizerPtr tokenizer = load_tokenizer(out());
    ASSERT_NE(tokenizer, nullptr);
    const std::string text = expected["text"];
    EXPECT_EQ(tokenizer->encode(text), expected["ids"].get<std::vector<std::int32_t>>());
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
    EXPECT_EQ(tokenizer->bos_id(), 1);
    EXPECT_EQ(tokenizer->eos_id(), 2);
}

TEST_F(ImportedLlama, ReportsWhatItIs) {
    EXPECT_EQ(report_.name, "tiny");
    EXPECT_EQ(report_.config.num_hidden_layers, 2);
    EXPECT_EQ(report_.config.num_key_value_heads, 2);
    EXPECT_EQ(report_.config.rms_norm_eps, 1e-5);
    EXPECT_EQ(report_.config.rope_theta, 50000);
    EXPECT_TRUE(report_.config.tie_word_embeddings);
    EXPECT_EQ(report_.parameters, 288 * 32 + 5 * 32 + 2 * (32 * 32 * 3 + 3 * 32 * 64));
    ASSERT_EQ(report_.types.size(), 3u);
    EXPECT_EQ(report_.types[0].type, "Q4_1");
    EXPECT_EQ(report_.types[0].bits_per_value, 5);
    EXPECT_EQ(report_.types[0].tensors, 14);
}

}  // namespace
}  // namespace subbyte::train
