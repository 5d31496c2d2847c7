// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/tokenizer.h"

#include <sentencepiece_trainer.h>

#include <numeric>

#include "data_util.h"
#include "subbyte/core/parallel.h"
#include "subbyte/data/encode_file.h"

namespace subbyte::data {
namespace {

using std::string_literals::operator""s;

// The model of these tests: trained once, on English-like text with some other letters.
class Tokenizers : public testing::Test {
protected:
    static void SetUpTestSuite() {
        const Folder folder;
        const auto path = folder.write(
            "text.txt", sample_text(400) + "na\xC3\xAFve caf\xC3\xA9\n    indented  twice\n");
        trained_ = train_sentencepiece({{path}}, {.vocab_size = 500});
        again_ = train_sentencepiece({{path}}, {.vocab_size = 500});
    }
    static void TearDownTestSuite() { trained_ = again_ = nullptr; }

    static TokenizerPtr trained_, again_;
};

TokenizerPtr Tokenizers::trained_, Tokenizers::again_;

void expect_round_trip(const Tokenizer& tokenizer, const std::string& text) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << testing::PrintToString(text);
}

const std::vector<std::string> kTexts{
    "",
    " ",
    "\n",
    "\n\n\n",
    "Anne",
    " Anne",
    "Anne ",
    "a\nb",
    "a \n b",
    "\r\n\r",
    "\t\t tab\t",
    "two  blanks   three    four",
    "line\n\n    indented\n\ttabbed\n",
    "1815 and 12.50",
    "gr\xC3\xBC\xC3\x9F"
    "e \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80",
    "\xE2\x96\x81",
    "a\xE2\x96\x81 \xE2\x96\x81z\n\xE2\x96\x81\n",              // SentencePiece's blank
    "\xE2\x96\x85 \xE2\x81\x87",                                // and its unknown marks
    "\xEF\xBF\xBD \xEF\xBF\xBE \xEF\xBF\xBF \xF4\x8F\xBF\xBF",  // U+FFFD and non-characters
    "<s></s><unk><pad><0x0A>",
    "nul\0nul"s,
    "\xEF\xBB\xBF"
    "bom",
    "\x01\x02\x7F",
    "\xC2\xA0\xE2\x80\x82\xE3\x80\x80",  // blanks that are not U+0020
    "e\xCC\x81 vs \xC3\xA9",             // not normalised
};

TEST_F(Tokenizers, AnyTextComesBack) {
    for (const std::string& text : kTexts) {
        expect_round_trip(*trained_, text);
        expect_round_trip(*make_byte_tokenizer(), text);
    }
    expect_round_trip(*trained_, sample_text(50, 7));
}

TEST_F(Tokenizers, RandomUnicodeComesBack) {
    std::mt19937 random(3);
    for (int i = 0; i < 400; ++i) {
        std::string text;
        for (auto length = random() % 80; length > 0; --length) {
            // A third each: ASCII with many blanks and line ends, two bytes, anything.
            std::uint32_t c = random() % 3 == 0 ? " \n  e\xC3"[random() % 5] : random() % 0x80;
            if (random() % 3 == 0) c = 0x80 + random() % 0x780;
            if (random() % 3 == 0) c = random() % 0x110000;
            if (c >= 0xD800 && c < 0xE000) c = 0x2581;
            if (c < 0x80) {
                text += static_cast<char>(c);
            } else if (c < 0x800) {
                text += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
            } else if (c < 0x10000) {
                text += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
                         static_cast<char>(0x80 | (c & 63))};
            } else {
                text +=
                    {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
                     static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
            }
        }
        expect_round_trip(*trained_, text);
    }
}

TEST_F(Tokenizers, LineEndsAreTheirBytePiece) {
    const std::int32_t line_end = trained_->encode("\n").at(0);
    EXPECT_EQ(trained_->encode("\n"), std::vector<std::int32_t>{3 + 10});  // after <unk> <s> </s>
    const auto ids = trained_->encode("Anne was\n\nnot");
    EXPECT_EQ(std::count(ids.begin(), ids.end(), line_end), 2);
}

TEST_F(Tokenizers, LearnsWordsAndSplitsDigits) {
    EXPECT_EQ(trained_->encode("the sister Captain").size(), 3u);
    EXPECT_EQ(trained_->encode("1815").size(), 4u);
    EXPECT_EQ(trained_->vocab_size(), 500);
    EXPECT_EQ(trained_->bos_id(), 1);
    EXPECT_EQ(trained_->eos_id(), 2);
    EXPECT_EQ(trained_->decode(std::vector<std::int32_t>{1, 2}), "");
}

TEST_F(Tokenizers, TrainingIsRepeatable) {
    EXPECT_EQ(trained_->files()[0].content, again_->files()[0].content);
    EXPECT_EQ(trained_->fingerprint(), again_->fingerprint());
    EXPECT_NE(trained_->fingerprint(), make_byte_tokenizer()->fingerprint());
}

TEST_F(Tokenizers, ModelFilesAreLoaded) {
    const Folder folder;
    const auto loaded = load_sentencepiece(folder.write("a.model", trained_->files()[0].content));
    EXPECT_EQ(loaded->fingerprint(), trained_->fingerprint());
    EXPECT_EQ(loaded->encode(sample_text(3)), trained_->encode(sample_text(3)));
}

TEST_F(Tokenizers, WhatIsNoModelIsRefused) {
    const Folder folder;
    const std::string model = trained_->files()[0].content;
    for (const std::string& content : {""s, "text"s, model.substr(0, model.size() / 2)}) {
        const auto path = folder.write("b.model", content);
        expect_error(ErrorCode::kData, {"b.model"}, [&] { load_sentencepiece(path); });
    }
    expect_error(ErrorCode::kData, {"none.model"}, [&] { load_sentencepiece("none.model"); });
}

// Trains with the library directly, as another program would.
std::string foreign_model(std::unordered_map<std::string, std::string> options) {
    const Folder folder;
    options.insert({{"input", folder.write("text", sample_text(50)).string()},
                    {"model_prefix", (folder / "m").string()},
                    {"model_type", "bpe"},
                    {"vocab_size", "400"},
                    {"hard_vocab_limit", "false"},
                    {"minloglevel", "4"}});
    const auto status = sentencepiece::SentencePieceTrainer::Train(options);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return folder.read("m.model");
}

TEST(ForeignModel, WithoutBytePiecesIsRefused) {
    const std::string model = foreign_model({});
    expect_error(ErrorCode::kData, {"other.model", "byte 0x00"},
                 [&] { parse_sentencepiece(model, "other.model"); });
}

// LLaMA's models put one blank in front of a text, and none behind its line ends.
TEST(ForeignModel, WithABlankInFrontGivesTheLibrarysIdsAndComesBack) {
    const std::string model = foreign_model({{"byte_fallback", "true"},
                                             {"normalization_rule_name", "identity"},
                                             {"remove_extra_whitespaces", "false"}});
    const auto tokenizer = parse_sentencepiece(model, "other.model");
    sentencepiece::SentencePieceProcessor processor;
    ASSERT_TRUE(processor.LoadFromSerializedProto(model).ok());
    for (const std::string text : {"Anne", "Anne was\nnot her\n\n sister", " ", "a\n", "\nb"}) {
        std::vector<int> expected;
        ASSERT_TRUE(processor.Encode(text, &expected).ok());
        EXPECT_EQ(tokenizer->encode(text), expected) << text;
    }
    for (const std::string& text : kTexts) expect_round_trip(*tokenizer, text);

    auto joined = tokenizer->encode("Anne was\n");
    const auto rest = tokenizer->encode_rest("not her");
    joined.insert(joined.end(), rest.begin(), rest.end());
    EXPECT_EQ(joined, tokenizer->encode("Anne was\nnot her"));
}

TEST_F(Tokenizers, InvalidTextAndIdsAreRefused) {
    for (const auto& tokenizer : {trained_, make_byte_tokenizer()}) {
        expect_error(ErrorCode::kData, {"byte 2"}, [&] { tokenizer->encode("ab\xFF"); });
        for (const std::int32_t id : {-1, 500, 1 << 30}) {
            expect_error(ErrorCode::kData, {"token 1", std::to_string(id)}, [&] {
                tokenizer->decode(std::vector<std::int32_t>{0, id});
            });
        }
    }
}

TEST_F(Tokenizers, HalfACharacterDecodesToTheReplacement) {
    for (const auto& tokenizer : {trained_, make_byte_tokenizer()}) {
        auto ids = tokenizer->encode("x\xF0\x9F\x98\x80");
        ids.pop_back();
        const std::string text = tokenizer->decode(ids);
        EXPECT_EQ(text.substr(0, 4), "x\xEF\xBF\xBD");
    }
}

TEST(Training, ASmallTextGivesFewerPiecesAndSaysSo) {
    const Folder folder;
    const LogCatcher log;
    const auto tokenizer =
        train_sentencepiece({{folder.write("t", "one two one two\n")}}, {.vocab_size = 8192});
    EXPECT_LT(tokenizer->vocab_size(), 300);
    ASSERT_EQ(log.messages.size(), 1u);
    EXPECT_NE(log.messages[0].second.find("8192"), std::string::npos);
    expect_round_trip(*tokenizer, "three\n");
}

TEST(Training, RefusesATooSmallVocabularyAndBadText) {
    const Folder folder;
    const auto text = folder.write("t", sample_text(5));
    expect_error(ErrorCode::kUsage, {"100 pieces"},
                 [&] { train_sentencepiece({{text}}, {.vocab_size = 100}); });
    expect_error(ErrorCode::kData, {"is empty"},
                 [&] { train_sentencepiece({{folder.write("e", "")}}, {}); });
    expect_error(ErrorCode::kData, {"byte 3"},
                 [&] { train_sentencepiece({{folder.write("j", "abc\xFF")}}, {}); });
}

// Words of more than 65535 characters would end the process inside the library.
TEST(Training, TextWithoutBlanksOrLinesIsTaken) {
    const Folder folder;
    std::string text;
    for (int i = 0; i < 40000; ++i) text += "\xE4\xB8\xAD\xE6\x96\x87";
    const auto tokenizer = train_sentencepiece({{folder.write("t", text)}}, {.vocab_size = 300});
    expect_round_trip(*tokenizer, text);
}

TEST(Training, LargeTextsAreThinnedOut) {
    const Folder folder;
    std::string text;  // odd lines use other letters: with a stride of two they are not seen
    for (int i = 0; i < 200; ++i) text += i % 2 == 0 ? "even eve\n" : "odd door\n";
    const auto bytes = static_cast<std::int64_t>(text.size());
    const auto half = train_sentencepiece({{folder.write("t", text)}},
                                          {.vocab_size = 500, .max_bytes = bytes / 2});
    EXPECT_EQ(half->encode("even").size(), 1u);
    EXPECT_EQ(half->encode("odd").size(), 3u);
}

TEST_F(Tokenizers, EncodingAFileDoesNotDependOnThreads) {
    const Folder folder;
    const std::string text = sample_text(5000, 9);
    ASSERT_GT(text.size(), std::size_t{1} << 20);
    const auto path = folder.write("t", text);
    const auto encode = [&] {
        std::vector<std::int32_t> ids;
        encode_file({path}, *trained_, [&](std::span<const std::int32_t> part) {
            ids.insert(ids.end(), part.begin(), part.end());
        });
        return ids;
    };
    const auto ids = encode();
    set_parallel_for([](std::int64_t count, std::int64_t, const auto& body) {
        for (std::int64_t i = count; i > 0; --i) body(i - 1, i);  // another order and cut
    });
    const auto other = encode();
    set_parallel_for(nullptr);
    EXPECT_TRUE(ids == other);
    EXPECT_EQ(ids.back(), trained_->eos_id());
    EXPECT_TRUE(trained_->decode(ids) == text);
    auto whole = trained_->encode(text);
    whole.push_back(trained_->eos_id());
    EXPECT_TRUE(ids == whole);
}

}  // namespace
}  // namespace subbyte::data
