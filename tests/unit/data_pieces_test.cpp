// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// SentencePiece models made of lists of pieces, as GGUF files hold them.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/data/gguf_pieces.h"
#include "subbyte/data/tokenizer.h"
#include "tests/error_of.h"

namespace subbyte::data {
namespace {

// Marks, bytes, and the merges of " ab".
GgufPieces some_pieces() {
    GgufPieces p;
    const auto add = [&](const std::string& token, double score, std::int64_t type) {
        p.tokens.push_back(token);
        p.scores.push_back(score);
        p.types.push_back(type);
    };
    add("<unk>", 0, 2);
    add("<s>", 0, 3);
    add("</s>", 0, 3);
    for (int byte = 0; byte < 256; ++byte) {
        char text[8];
        std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(byte));
        add(text, 0, 6);
    }
    add("ab", 0, 1);
    add("\xE2\x96\x81"
        "ab",
        -1, 1);
    add("<|end|>", 0, 4);
    add("a", -2, 1);
    add("b", -3, 1);
    add("\xE2\x96\x81", -4, 1);
    add("[pad]", 0, 5);
    p.unknown = 0;
    p.bos = 1;
    p.eos = 2;
    return p;
}

TEST(Pieces, BecomeATokenizer) {
    GgufPieces pieces = some_pieces();
    pieces.chat_template = "{{ messages }}";
    const auto [model, config] = make_sentencepiece_model(pieces, "x.gguf");
    const TokenizerPtr tokenizer = parse_sentencepiece(model, "x.gguf");
    EXPECT_EQ(tokenizer->vocab_size(), 266);
    EXPECT_EQ(tokenizer->bos_id(), 1);
    EXPECT_EQ(tokenizer->eos_id(), 2);
    EXPECT_EQ(tokenizer->encode("ab ab<|end|>a\xC3\xA9"),
              (std::vector<std::int32_t>{260, 260, 261, 262, 3 + 0xC3, 3 + 0xA9}));
    const nlohmann::json json = nlohmann::json::parse(config);
    EXPECT_EQ(json.at("bos_token"), "<s>");
    EXPECT_EQ(json.at("pad_token"), nullptr);
    EXPECT_EQ(json.at("add_bos_token"), true);
    EXPECT_EQ(json.at("chat_template"), "{{ messages }}");

    pieces.add_space_prefix = false;
    pieces.bos = -1;
    const auto bare = parse_sentencepiece(make_sentencepiece_model(pieces, "x").first, "x");
    EXPECT_EQ(bare->encode("ab ab"), (std::vector<std::int32_t>{259, 260}));
    EXPECT_EQ(bare->eos_id(), 2);
}

TEST(Pieces, ThatAreNoTokenizerAreRefusedByName) {
    const auto refused = [](const std::function<void(GgufPieces&)>& spoil) {
        GgufPieces pieces = some_pieces();
        spoil(pieces);
        return refusal(ErrorCode::kData, [&] {
            parse_sentencepiece(make_sentencepiece_model(pieces, "x.gguf").first, "x.gguf");
        });
    };
    EXPECT_EQ(refused([](GgufPieces&) {}), "accepted");
    const auto starts = [&](const char* text, const std::function<void(GgufPieces&)>& spoil) {
        const std::string said = refused(spoil);
        EXPECT_TRUE(said.starts_with(std::string(text) + "\n")) << said;
    };
    starts("x.gguf: 266 tokens have 265 scores and 266 types",
           [](GgufPieces& p) { p.scores.pop_back(); });
    starts("x.gguf: token 7 is of type 9", [](GgufPieces& p) { p.types[7] = 9; });
    starts("x.gguf: mark 266 of 266 tokens", [](GgufPieces& p) { p.eos = 266; });
    EXPECT_EQ(refused([](GgufPieces& p) { p.types[0] = 1; }).find("x.gguf: "), 0u);  // no unknown
    EXPECT_EQ(refused([](GgufPieces& p) { p.tokens[260] = "ab"; }).find("x.gguf: "), 0u);
    EXPECT_EQ(refused([](GgufPieces& p) { p.types[3 + 0x41] = 1; }).find("x.gguf: "), 0u);
}

}  // namespace
}  // namespace subbyte::data
