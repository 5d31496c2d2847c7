// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Byte-level BPE against Hugging Face's tokenizers: three ways of cutting words, made by
// make_import.py.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "subbyte/data/tokenizer.h"

namespace subbyte::data {
namespace {

class GoldenBpe : public ::testing::TestWithParam<const char*> {
protected:
    GoldenBpe() {
        const auto all =
            nlohmann::json::parse(std::ifstream(SUBBYTE_GOLDEN_DIR "/import_bpe.json"));
        texts_ = all["texts"].get<std::vector<std::string>>();
        const auto& one = all["tokenizers"][GetParam()];
        ids_ = one["ids"].get<std::vector<std::vector<std::int32_t>>>();
        tokenizer_ = parse_bpe(one["json"].get<std::string>(), "", GetParam());
    }
    std::vector<std::string> texts_;
    std::vector<std::vector<std::int32_t>> ids_;
    TokenizerPtr tokenizer_;
};

TEST_P(GoldenBpe, GivesTheSameIds) {
    ASSERT_EQ(texts_.size(), ids_.size());
    for (std::size_t i = 0; i < texts_.size(); ++i) {
        EXPECT_EQ(tokenizer_->encode(texts_[i]), ids_[i]) << texts_[i];
    }
}

TEST_P(GoldenBpe, DecodesToTheTextWithoutItsMarks) {
    for (std::string text : texts_) {
        const std::string decoded = tokenizer_->decode(tokenizer_->encode(text));
        for (const char* mark : {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im|>"}) {
            for (std::size_t at = 0; (at = text.find(mark)) != text.npos;) {
                text.erase(at, std::string_view(mark).size());
            }
        }
        EXPECT_EQ(decoded, text);
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GoldenBpe, ::testing::Values("gpt-2", "smollm", "llama-bpe"),
                         [](const auto& kind) {
                             std::string name = kind.param;
                             std::erase(name, '-');
                             return name;
                         });

}  // namespace
}  // namespace subbyte::data
