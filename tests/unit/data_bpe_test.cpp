// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Byte-level BPE on vocabularies written by hand.
#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <random>

#include "data_util.h"
#include "subbyte/data/byte_level.h"
#include "subbyte/data/encode_file.h"
#include "subbyte/data/gguf_tokens.h"
#include "subbyte/data/tokenizer.h"

namespace subbyte::data {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

// Tokens 0 to 255 are the bytes, then "ab" "abc" " a" "aa" "aaaa", then two marks.
GgufTokens small(const std::string& pre) {
    GgufTokens t;
    t.pre = pre;
    for (const std::string& letter : byte_letters()) t.tokens.push_back(letter);
    const std::string blank = byte_letters()[' '];
    for (const std::string& merge : {std::string("a b"), std::string("ab c"), blank + " a",
                                     std::string("a a"), std::string("aa aa")}) {
        t.merges.push_back(merge);
        t.tokens.push_back(merge);
        std::erase(t.tokens.back(), ' ');
    }
    t.types.assign(t.tokens.size(), 1);
    for (const char* mark : {"<s>", "</s>"}) t.tokens.push_back(mark), t.types.push_back(3);
    t.bos = 261, t.eos = 262;
    return t;
}

TokenizerPtr tokenizer_of(const GgufTokens& tokens) {
    const auto [tokenizer, config] = make_tokenizer_json(tokens, "x.gguf");
    return parse_bpe(tokenizer, config, "x");
}

TEST(Bpe, MergesTheFirstPairOfTheListFirst) {
    const TokenizerPtr t = tokenizer_of(small("gpt-2"));
    EXPECT_EQ(t->vocab_size(), 263);
    EXPECT_EQ(t->encode("abc"), (Ids{257}));
    EXPECT_EQ(t->encode("aab"), (Ids{'a', 256}));  // "a b" stands before "a a"
    EXPECT_EQ(t->encode(" ab"), (Ids{' ', 256}));  // and before " a"
    EXPECT_EQ(t->encode(" aaaaa"), (Ids{258, 260}));
    EXPECT_EQ(t->encode("aaaaaaa"), (Ids{260, 259, 'a'}));  // leftmost first
    EXPECT_EQ(t->encode("x<s>abc</s></s"), (Ids{'x', 261, 257, 262, '<', '/', 's'}));
    EXPECT_EQ(t->bos_id(), 261);
    EXPECT_EQ(t->eos_id(), 262);
    EXPECT_EQ(t->decode(Ids{261, 257, 262}), "abc");
}

TEST(Bpe, AWordThatIsATokenNeedsNoMergesWhereTheFileSaysSo) {
    GgufTokens tokens = small("llama-bpe");
    tokens.tokens[258] = "qrs";
    tokens.merges.erase(tokens.merges.begin() + 2);
    EXPECT_EQ(tokenizer_of(tokens)->encode("qrs"), (Ids{258}));
    tokens.pre = "gpt-2";
    EXPECT_EQ(tokenizer_of(tokens)->encode("qrs"), (Ids{'q', 'r', 's'}));
}

TEST(Bpe, EveryCharacterComesBack) {
    const TokenizerPtr t = tokenizer_of(small("smollm"));
    std::string all;
    for (char32_t c = 0; c < 0x11000; c += c < 0x3000 ? 1 : 7) {
        if (c >= 0xD800 && c < 0xE000) continue;
        if (c < 0x80) {
            all += static_cast<char>(c);
        } else if (c < 0x800) {
            all += static_cast<char>(0xC0 | c >> 6);
            all += static_cast<char>(0x80 | (c & 63));
        } else if (c < 0x10000) {
            all += static_cast<char>(0xE0 | c >> 12);
            all += static_cast<char>(0x80 | (c >> 6 & 63));
            all += static_cast<char>(0x80 | (c & 63));
        } else {
            all += static_cast<char>(0xF0 | c >> 18);
            all += static_cast<char>(0x80 | (c >> 12 & 63));
            all += static_cast<char>(0x80 | (c >> 6 & 63));
            all += static_cast<char>(0x80 | (c & 63));
        }
    }
    EXPECT_EQ(t->decode(t->encode(all)), all);
}

// A file is cut into parts; the ids are those of the whole text.
TEST(Bpe, AFileGivesTheIdsOfItsText) {
    const Folder folder;
    std::mt19937_64 random(5);
    const std::vector<std::string> pieces{"abc",
                                          "a",
                                          " ",
                                          "  ",
                                          "\n",
                                          "\n\n",
                                          " \n",
                                          "x.",
                                          "\t",
                                          "\xC2\xA0",
                                          "\xE2\x80\xA8",
                                          "\xE4\xBD\xA0",
                                          "12",
                                          "<s>",
                                          "</s>",
                                          "'ll",
                                          "\xF0\x9F\x98\x80",
                                          "!?"};
    for (const char* pre : {"gpt-2", "smollm", "llama-bpe"}) {
        const TokenizerPtr t = tokenizer_of(small(pre));
        std::string text = "abc";
        while (text.size() < 1200000) text += pieces[random() % pieces.size()];
        text += "\n";
        Ids whole = t->encode(text), parts;
        whole.push_back(t->eos_id());
        encode_file({folder.write("t.txt", text)}, *t, [&](std::span<const std::int32_t> ids) {
            parts.insert(parts.end(), ids.begin(), ids.end());
        });
        EXPECT_EQ(parts.size(), whole.size()) << pre;
        EXPECT_TRUE(parts == whole) << pre;
    }
}

TEST(Bpe, LongWordsTakeNoLongTime) {
    const TokenizerPtr t = tokenizer_of(small("gpt-2"));
    const std::clock_t before = std::clock();  // processor time: the machine may be busy
    const std::string text(1 << 20, 'a');
    EXPECT_EQ(t->encode(text).size(), text.size() / 4);
    EXPECT_EQ(t->encode(std::string(1 << 20, ' ')).size(), std::size_t{1} << 20);
    EXPECT_LT((std::clock() - before) / CLOCKS_PER_SEC, 10);
}

TEST(Bpe, ABlankBetweenWordsIsAPlaceToCut) {
    const TokenizerPtr t = tokenizer_of(small("gpt-2"));
    EXPECT_EQ(t->cut("one two", 0), 3u);
    EXPECT_EQ(t->cut("one  two", 0), std::string_view::npos);
    EXPECT_EQ(t->cut("one\ntwo", 0), 4u);
    EXPECT_EQ(t->cut("one \ntwo", 0), std::string_view::npos);
    EXPECT_EQ(t->cut("one\n\ntwo", 0), std::string_view::npos);
    EXPECT_EQ(t->cut("one two", 4), std::string_view::npos);
}

TEST(Bpe, SavedFilesGiveTheSameTokenizer) {
    const TokenizerPtr t = tokenizer_of(small("smollm"));
    const Folder folder;
    for (const TokenizerFile& file : t->files()) folder.write(file.name, file.content);
    const TokenizerPtr again = load_tokenizer_file(find_tokenizer(folder.path()));
    EXPECT_EQ(again->fingerprint(), t->fingerprint());
    EXPECT_EQ(again->eos_id(), t->eos_id());
    EXPECT_EQ(again->encode("abc <s>12"), t->encode("abc <s>12"));
}

TEST(Bpe, ABadFileIsRefusedByName) {
    const json good = json::parse(make_tokenizer_json(small("gpt-2"), "x").first);
    const auto refused = [&](const json& patch, const std::string& part) {
        json bad = good;
        bad.merge_patch(patch);
        expect_error(ErrorCode::kData, {"t.json", part},
                     [&] { parse_bpe(bad.dump(), "", "t.json"); });
    };
    EXPECT_NO_THROW(parse_bpe(good.dump(), "", "t.json"));
    refused({{"model", {{"type", "WordPiece"}}}}, "WordPiece");
    refused({{"model", {{"byte_fallback", true}}}}, "byte_fallback");
    refused({{"model", {{"vocab", {{"new", 4000000000}}}}}}, "4000000000");
    refused({{"model", {{"vocab", {{"new", 5}}}}}}, "id 5");
    refused({{"model", {{"merges", {"a zz"}}}}}, "a zz");
    refused({{"model", {{"merges", {7}}}}}, "entry 0 is 7");
    refused({{"normalizer", {{"type", "NFC"}}}}, "normalizer");
    refused({{"pre_tokenizer", {{"type", "Metaspace"}, {"pretokenizers", nullptr}}}}, "Metaspace");
    refused({{"added_tokens", {{{"id", 3}, {"content", "<s>"}}}}}, "'<s>'");
    expect_error(ErrorCode::kData, {"t.json"}, [] { parse_bpe("[", "", "t.json"); });
    expect_error(ErrorCode::kData, {"tokenizer_config.json", "nothing"},
                 [&] { parse_bpe(good.dump(), R"({"eos_token": "nothing"})", "t.json"); });
    expect_error(ErrorCode::kData, {"x.gguf", "tekken"},
                 [] { make_tokenizer_json(small("tekken"), "x.gguf"); });
}

TEST(Bpe, MutationsOfAFileGiveATokenizerOrAnError) {
    const std::string whole = make_tokenizer_json(small("llama-bpe"), "x").first;
    std::mt19937 random(7);
    int refused = 0;
    for (int i = 0; i < 1500; ++i) {
        std::string bytes = whole;
        for (int edits = 0; edits < 3; ++edits) {
            // Mostly outside of the long list of tokens.
            const std::size_t range = random() % 4 > 0 ? 2500 : bytes.size();
            bytes[random() % std::min(range, bytes.size())] =
                "\"{}[]:,0129aN \\\xFF"[random() % 17];
        }
        try {
            parse_bpe(bytes, "", "t.json")->encode("abc 12 <s>");
        } catch (const Error& error) {
            ++refused;
            ASSERT_EQ(error.code(), ErrorCode::kData) << error.what();
        }
    }
    EXPECT_GT(refused, 500);
    EXPECT_LT(refused, 1500);
}

}  // namespace
}  // namespace subbyte::data
