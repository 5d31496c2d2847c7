// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// From files to tokens: the cache, the split, and what is refused.
#include "subbyte/data/corpus.h"

#include <sys/resource.h>

#include <chrono>
#include <csignal>

#include "data_util.h"
#include "subbyte/data/corpus_cache.h"
#include "subbyte/data/shard_writer.h"
#include "subbyte/data/windows.h"

namespace subbyte::data {
namespace {

std::string text_of(const Corpus& corpus, const TokenStream& stream) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(stream.size()));
    stream.read(0, ids);
    return corpus.tokenizer->decode(std::vector<std::int32_t>(ids.begin(), ids.end()));
}

class CorpusTest : public testing::Test {
protected:
    CorpusOptions options(const std::string& text) const {
        CorpusOptions options;
        options.train = {folder_.write("text.txt", text).string()};
        options.vocab_size = 500;
        options.val_fraction = 0.2;
        options.cache_dir = (folder_ / "cache").string();
        return options;
    }

    Folder folder_;
};

TEST_F(CorpusTest, HoldsTheTextInBothParts) {
    const std::string text = sample_text(80);
    const Corpus corpus = prepare_corpus(options(text));
    EXPECT_FALSE(corpus.reused);
    EXPECT_EQ(corpus.vocab_size, 500);
    const std::string train = text_of(corpus, corpus.train), val = text_of(corpus, corpus.val);
    EXPECT_EQ(train + val, text);
    EXPECT_NEAR(double(val.size()) / double(text.size()), 0.2, 0.02);
    EXPECT_EQ(corpus.train_bytes, static_cast<std::int64_t>(train.size()));
    EXPECT_EQ(corpus.val_bytes, static_cast<std::int64_t>(val.size()));
    std::vector<std::int64_t> last(1);
    corpus.train.read(corpus.train.size() - 1, last);
    EXPECT_EQ(last[0], corpus.tokenizer->eos_id());
}

// The validation part must not leak: the tokenizer comes from the training part alone.
TEST_F(CorpusTest, TheTokenizerSeesTheTrainingPartOnly) {
    auto o = options(sample_text(60));
    o.val = {folder_.write("val.txt", sample_text(20, 5)).string()};
    const Corpus one = prepare_corpus(o);
    folder_.write("val.txt", sample_text(20, 6) + "zygomorphic zygomorphic zygomorphic\n");
    const Corpus two = prepare_corpus(o);
    EXPECT_FALSE(two.reused);
    EXPECT_EQ(one.tokenizer->fingerprint(), two.tokenizer->fingerprint());
    EXPECT_EQ(one.train.checksum(), two.train.checksum());
    EXPECT_NE(one.val.checksum(), two.val.checksum());
}

TEST_F(CorpusTest, IsReusedWhileContentAndOptionsAgree) {
    const auto o = options(sample_text(60));
    const Corpus first = prepare_corpus(o);
    const Corpus second = prepare_corpus(o);
    EXPECT_TRUE(second.reused);
    EXPECT_EQ(first.train.checksum(), second.train.checksum());
    EXPECT_EQ(first.val.checksum(), second.val.checksum());
    EXPECT_EQ(first.tokenizer->fingerprint(), second.tokenizer->fingerprint());

    auto copied = o;  // the content counts, not the name
    copied.train = {folder_.write("copy.txt", sample_text(60)).string()};
    EXPECT_TRUE(prepare_corpus(copied).reused);

    auto changed = o;
    changed.vocab_size = 450;
    EXPECT_FALSE(prepare_corpus(changed).reused);
    changed = o;
    changed.val_fraction = 0.3;
    EXPECT_FALSE(prepare_corpus(changed).reused);
    changed = o;
    changed.tokenizer = "bytes";
    EXPECT_FALSE(prepare_corpus(changed).reused);
    std::string text = sample_text(60);
    text[100] = text[100] == 'e' ? 'a' : 'e';  // same size
    EXPECT_FALSE(prepare_corpus(options(text)).reused);
    EXPECT_TRUE(prepare_corpus(options(sample_text(60))).reused);
}

TEST_F(CorpusTest, DamagedEntriesAreMadeAgain) {
    const auto o = options(sample_text(60));
    const Corpus first = prepare_corpus(o);
    for (const char* file : {"train.sbtk", "val.sbtk", "tokenizer.model", "corpus.json"}) {
        for (const bool removed : {true, false}) {
            if (removed) {
                std::filesystem::remove(first.folder / file);
            } else {
                std::filesystem::resize_file(first.folder / file,
                                             std::filesystem::file_size(first.folder / file) - 2);
            }
            const LogCatcher log;
            const Corpus again = prepare_corpus(o);
            EXPECT_FALSE(again.reused) << file;
            EXPECT_EQ(again.train.checksum(), first.train.checksum());
            ASSERT_FALSE(log.messages.empty());
            EXPECT_EQ(log.messages[0].first, LogLevel::kWarning);
            EXPECT_NE(log.messages[0].second.find("made again"), std::string::npos);
        }
    }
    EXPECT_TRUE(prepare_corpus(o).reused);
}

TEST_F(CorpusTest, AFullDiskLeavesNoEntry) {
    const auto o = options(sample_text(200));
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    for (const rlim_t room : {10, 9000}) {  // in the tokenizer's file, in the tokens' file
        const rlimit limit{room, before.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        expect_error(ErrorCode::kData, {"cannot be written"}, [&] { prepare_corpus(o); });
        ::setrlimit(RLIMIT_FSIZE, &before);
        EXPECT_TRUE(std::filesystem::is_empty(o.cache_dir));
    }
    std::signal(SIGXFSZ, handler);
    EXPECT_FALSE(prepare_corpus(o).reused);
}

TEST_F(CorpusTest, ACacheThatCannotBeMadeIsAnError) {
    auto o = options(sample_text(20));
    o.cache_dir = (folder_ / "text.txt/cache").string();  // a file is in the way
    expect_error(ErrorCode::kData, {"text.txt/cache"}, [&] { prepare_corpus(o); });
}

TEST_F(CorpusTest, SeveralFilesEndWithTheMarkEach) {
    auto o = options("first\r\n");
    o.train.push_back(folder_.write("b.txt", "\xEF\xBB\xBFsecond\n").string());
    o.tokenizer = "bytes";
    o.val_fraction = 0;
    const Corpus corpus = prepare_corpus(o);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(corpus.train.size()));
    corpus.train.read(0, ids);
    std::vector<std::int64_t> expected;
    for (const char c : std::string("first\n")) expected.push_back(c);
    expected.push_back(257);
    for (const char c : std::string("second\n")) expected.push_back(c);
    expected.push_back(257);
    EXPECT_EQ(ids, expected);
    EXPECT_EQ(corpus.val.size(), 0);
    EXPECT_TRUE(prepare_corpus(o).reused);
}

TEST_F(CorpusTest, AModelFileTakesThePlaceOfTraining) {
    const Corpus trained = prepare_corpus(options(sample_text(60)));
    auto o = options(sample_text(30, 8));
    o.tokenizer = (trained.folder / "tokenizer.model").string();
    const Corpus corpus = prepare_corpus(o);
    EXPECT_EQ(corpus.tokenizer->fingerprint(), trained.tokenizer->fingerprint());
    EXPECT_EQ(text_of(corpus, corpus.train) + text_of(corpus, corpus.val), sample_text(30, 8));
    EXPECT_TRUE(prepare_corpus(o).reused);
}

TEST_F(CorpusTest, TokenFilesAreTakenAsTheyAre) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 1000; ++i) ids.push_back(i % 300);
    ShardWriter writer(folder_ / "a.sbtk", 300, 0);
    writer.append(ids);
    writer.finish();
    CorpusOptions o;
    o.train = {(folder_ / "a.sbtk").string()};
    o.val_fraction = 0.1;
    const Corpus corpus = prepare_corpus(o);
    EXPECT_EQ(corpus.tokenizer, nullptr);
    EXPECT_EQ(corpus.vocab_size, 300);
    EXPECT_EQ(corpus.train.size(), 900);
    EXPECT_EQ(corpus.val.size(), 100);
    std::vector<std::int64_t> first(1);
    corpus.val.read(0, first);
    EXPECT_EQ(first[0], 0);  // token 900

    const std::vector<std::uint16_t> narrow{7, 8, 9};
    o.train = {folder_.write("a.bin", {reinterpret_cast<const char*>(narrow.data()), 6}).string()};
    o.val_fraction = 0;
    o.vocab_size = 10;
    EXPECT_EQ(prepare_corpus(o).train.size(), 3);
    o.vocab_size = 9;
    expect_error(ErrorCode::kData, {"token 2 is 9"}, [&] { prepare_corpus(o); });
}

TEST_F(CorpusTest, TokenFilesOfAnotherTokenizerAreRefused) {
    const Corpus text = prepare_corpus(options(sample_text(60)));
    CorpusOptions o;
    o.train = {(text.folder / "train.sbtk").string()};
    o.val = {(text.folder / "val.sbtk").string()};
    o.tokenizer = (text.folder / "tokenizer.model").string();
    EXPECT_EQ(text_of(prepare_corpus(o), prepare_corpus(o).val), text_of(text, text.val));
    o.tokenizer = "bytes";
    expect_error(ErrorCode::kData, {"train.sbtk", "another tokenizer", "bytes"},
                 [&] { prepare_corpus(o); });
    o.tokenizer = "sentencepiece";
    ShardWriter other(folder_ / "other.sbtk", 500, 1);
    other.append(std::vector<std::int32_t>{1, 2});
    other.finish();
    o.val = {(folder_ / "other.sbtk").string()};
    expect_error(ErrorCode::kData, {"other.sbtk", "another tokenizer"}, [&] { prepare_corpus(o); });
}

TEST_F(CorpusTest, BadInputsAreRefusedByName) {
    auto o = options("");
    expect_error(ErrorCode::kData, {"text.txt", "is empty"}, [&] { prepare_corpus(o); });
    o = options("ab\xFF and some more text");
    expect_error(ErrorCode::kData, {"text.txt", "byte 2"}, [&] { prepare_corpus(o); });
    o = options("x");
    expect_error(ErrorCode::kData, {"text.txt", "1 bytes", "0.2"}, [&] { prepare_corpus(o); });
    o.train = {(folder_ / "none.txt").string()};
    expect_error(ErrorCode::kData, {"none.txt"}, [&] { prepare_corpus(o); });
    o.train = {};
    expect_error(ErrorCode::kUsage, {"names no file"}, [&] { prepare_corpus(o); });
    o = options("text");
    o.val = {"a.bin"};
    expect_error(ErrorCode::kUsage, {"mixed", "a.bin"}, [&] { prepare_corpus(o); });
    o = options("text");
    o.val_fraction = 1;
    expect_error(ErrorCode::kUsage, {"val_fraction"}, [&] { prepare_corpus(o); });
    o = options("text");
    o.tokenizer = "none.model";
    expect_error(ErrorCode::kData, {"none.model"}, [&] { prepare_corpus(o); });
    EXPECT_TRUE(std::filesystem::is_empty(o.cache_dir));  // nothing half-made
}

TEST_F(CorpusTest, TheCacheForgetsWhatWasNotUsedForTheLongestTime) {
    const std::filesystem::path cache = folder_ / "cache";
    const auto text = [&](const std::string& content) {
        const auto path = folder_.write("text.txt", content);
        return TextCorpus{{{path}}, {}, make_byte_tokenizer(), 0};
    };
    const auto age = [](const Corpus& corpus, int hours) {
        std::filesystem::last_write_time(
            corpus.folder / "corpus.json",
            std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
    };
    const auto is_there = [](const Corpus& corpus) {
        return std::filesystem::exists(corpus.folder);
    };
    const std::uint64_t limit = 70000;  // two shards of 30000 bytes, not three
    const Corpus a = cached_corpus(text(std::string(15000, 'a')), cache, limit);
    const Corpus b = cached_corpus(text(std::string(15000, 'b')), cache, limit);
    age(a, 3);
    age(b, 2);
    EXPECT_TRUE(cached_corpus(text(std::string(15000, 'a')), cache, limit).reused);  // used again
    const Corpus c = cached_corpus(text(std::string(15000, 'c')), cache, limit);
    EXPECT_TRUE(is_there(a) && is_there(c));
    EXPECT_FALSE(is_there(b));
    EXPECT_EQ(text_of(a, a.train).substr(0, 15000), std::string(15000, 'a'));
    // One that is larger than the limit stays alone; what is not ours is left in peace.
    std::filesystem::create_directory(cache / "other");
    folder_.write("cache/other/file", "x");
    const Corpus d = cached_corpus(text(std::string(50000, 'd')), cache, limit);
    EXPECT_TRUE(is_there(d));
    EXPECT_FALSE(is_there(a) || is_there(c));
    EXPECT_TRUE(std::filesystem::exists(cache / "other" / "file"));
}

TEST_F(CorpusTest, AShortValidationPartIsFoundAtTheStart) {
    auto o = options(sample_text(60));
    o.val = {folder_.write("val.txt", "too short\n").string()};
    o.tokenizer = "bytes";
    const Corpus corpus = prepare_corpus(o);
    EXPECT_GT(Windows(corpus.train, 256, "training data").count(), 1);
    expect_error(ErrorCode::kData, {"validation data", "11 tokens found", "257 needed"},
                 [&] { Windows(corpus.val, 256, "validation data"); });
}

TEST_F(CorpusTest, TheNovelsHaveANameOfTheirOwn) {
    CorpusOptions o;
    o.train = {"novels"};
    o.cache_dir = (folder_ / "cache").string();
    o.novels_dir = (folder_ / "set").string();
    o.vocab_size = 400;
    try {
        prepare_corpus(o);
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kData);
        // Where it looked, as a path that needs no working directory to be understood.
        EXPECT_NE(std::string(error.what())
                      .find(std::filesystem::absolute(folder_ / "set" / "train.txt").string()),
                  std::string::npos)
            << error.what();
        EXPECT_NE(error.hint().find("scripts/prepare_data.py"), std::string::npos);
        EXPECT_NE(error.hint().find("data.path=FILE"), std::string::npos);
    }
    std::filesystem::create_directories(folder_ / "set");
    folder_.write("set/train.txt", sample_text(50));
    folder_.write("set/val.txt", sample_text(10, 4));
    const Corpus corpus = prepare_corpus(o);
    EXPECT_EQ(text_of(corpus, corpus.train), sample_text(50));
    EXPECT_EQ(text_of(corpus, corpus.val), sample_text(10, 4));
}

}  // namespace
}  // namespace subbyte::data
