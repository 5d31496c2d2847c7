// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Token shards: what is written comes back, what is damaged is refused, what cannot be written
// leaves nothing behind.
#include "subbyte/data/token_shard.h"

#include <sys/resource.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <csignal>
#include <cstring>

#include "data_util.h"
#include "subbyte/data/shard_writer.h"

namespace subbyte::data {
namespace {

std::vector<std::int64_t> all_ids(const TokenSource& shard) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(shard.size()));
    shard.read(0, ids);
    return ids;
}

template <class Id>
std::string bytes_of(const std::vector<Id>& ids) {
    return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(Id)};
}

std::vector<std::int32_t> counting(std::int32_t count, std::int32_t vocab) {
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < count; ++i) ids.push_back(i * 7 % vocab);
    return ids;
}

void write_shard(const std::filesystem::path& path, const std::vector<std::int32_t>& ids,
                 std::int64_t vocab) {
    ShardWriter writer(path, vocab, 0xABCDEF);
    writer.append(std::span(ids).first(ids.size() / 3));
    writer.append(std::span(ids).subspan(ids.size() / 3));
    writer.finish();
}

TEST(TokenShard, WrittenIdsComeBack) {
    const Folder folder;
    // 65536 is the last vocabulary of 16 bit; the count passes the size that is checked at once.
    for (const std::int32_t vocab : {2, 65536, 65537, 200000}) {
        for (const std::int32_t count : {0, 1, 1000, 700001}) {
            const auto ids = counting(count, vocab);
            write_shard(folder / "a.sbtk", ids, vocab);
            const TokenShard shard(folder / "a.sbtk", {});
            EXPECT_EQ(shard.size(), count);
            EXPECT_EQ(shard.vocab_size(), vocab);
            EXPECT_EQ(shard.tokenizer(), 0xABCDEFu);
            const auto back = all_ids(shard);
            EXPECT_TRUE(std::equal(ids.begin(), ids.end(), back.begin(), back.end()));
            const auto file = std::filesystem::file_size(folder / "a.sbtk");
            EXPECT_EQ(file, 64u + static_cast<unsigned>(count) * (vocab <= 65536 ? 2u : 4u));
        }
    }
}

// The layout is a promise to other programs: here it is put together by hand.
TEST(TokenShard, LayoutIsTheDocumentedOne) {
    const Folder folder;
    const std::vector<std::uint16_t> ids{5, 0, 99, 7};
    const std::string payload = bytes_of(ids);
    std::string file = "SBTK";
    const auto put = [&](std::uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) file += static_cast<char>(value >> (8 * i));
    };
    put(1, 4), put(2, 4), put(0, 4), put(4, 8), put(100, 8), put(77, 8);
    put(XXH64(payload.data(), payload.size(), 0), 8);
    put(XXH64(file.data(), 48, 0), 8), put(0, 8);
    const TokenShard shard(folder.write("a.sbtk", file + payload), {});
    EXPECT_EQ(all_ids(shard), (std::vector<std::int64_t>{5, 0, 99, 7}));
    EXPECT_EQ(shard.vocab_size(), 100);
    EXPECT_EQ(shard.tokenizer(), 77u);
}

TEST(TokenShard, IdsAloneAreReadByVocabularyOrWidth) {
    const Folder folder;
    const std::vector<std::uint16_t> narrow{1, 50256, 3};
    const std::vector<std::uint32_t> wide{1, 128000, 3};
    const auto a = folder.write("a.bin", bytes_of(narrow));
    const auto b = folder.write("b.bin", bytes_of(wide));
    EXPECT_EQ(all_ids(TokenShard(a, {.vocab_size = 50257})),
              (std::vector<std::int64_t>{1, 50256, 3}));
    EXPECT_EQ(all_ids(TokenShard(b, {.vocab_size = 128256})),
              (std::vector<std::int64_t>{1, 128000, 3}));
    const auto c = folder.write("c.bin", bytes_of(std::vector<std::uint32_t>{1, 2}));
    EXPECT_EQ(all_ids(TokenShard(c, {.vocab_size = 8192, .id_bytes = 4})),
              (std::vector<std::int64_t>{1, 2}));
}

TEST(TokenShard, HeadersOfLlmcAreUnderstood) {
    const Folder folder;
    std::vector<std::uint32_t> header(256, 0);
    header[0] = 20240520, header[1] = 1, header[2] = 3;
    const auto a = folder.write(
        "a.bin", bytes_of(header) + bytes_of(std::vector<std::uint16_t>{50256, 11, 12}));
    EXPECT_EQ(all_ids(TokenShard(a, {.vocab_size = 50257})),
              (std::vector<std::int64_t>{50256, 11, 12}));
    header[0] = 20240801, header[1] = 7;
    const auto b = folder.write(
        "b.bin", bytes_of(header) + bytes_of(std::vector<std::uint32_t>{128000, 11, 12}));
    EXPECT_EQ(all_ids(TokenShard(b, {.vocab_size = 128256})),
              (std::vector<std::int64_t>{128000, 11, 12}));
}

TEST(TokenShard, IdsOutsideTheVocabularyAreRefused) {
    const Folder folder;
    const auto a = folder.write("a.bin", bytes_of(std::vector<std::uint16_t>{1, 2, 8192, 3}));
    expect_error(ErrorCode::kData, {"a.bin", "token 2 is 8192", "8192 pieces"},
                 [&] { TokenShard(a, {.vocab_size = 8192}); });
    expect_error(ErrorCode::kData, {"vocabulary of 0"}, [&] { TokenShard(a, {}); });
    const auto odd = folder.write("odd.bin", "abc");
    expect_error(ErrorCode::kData, {"3 bytes"}, [&] { TokenShard(odd, {.vocab_size = 60000}); });
    write_shard(folder / "b.sbtk", {1, 2, 3}, 100);
    expect_error(ErrorCode::kData, {"vocabulary of 100", "8192"},
                 [&] { TokenShard(folder / "b.sbtk", {.vocab_size = 8192}); });
    EXPECT_EQ(TokenShard(folder / "b.sbtk", {.vocab_size = 100}).size(), 3);
    ShardWriter writer(folder / "c.sbtk", 10, 0);
    expect_error(ErrorCode::kData, {"token 1 is 10"}, [&] {
        writer.append(std::vector<std::int32_t>{9, 10});
    });
    expect_error(ErrorCode::kData, {"token 0 is -1"},
                 [&] { writer.append(std::vector<std::int32_t>{-1}); });
}

TEST(TokenShard, EverySingleDamageIsFound) {
    const Folder folder;
    write_shard(folder / "good.sbtk", counting(50, 300), 300);
    const std::string good = folder.read("good.sbtk");
    const auto refused = [&](const std::string& content) {
        const auto path = folder.write("bad.sbtk", content);
        expect_error(ErrorCode::kData, {"bad.sbtk"}, [&] { TokenShard(path, {}); });
    };
    for (std::size_t length = 0; length < good.size(); ++length) refused(good.substr(0, length));
    refused(good + '\0');
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
        std::string bad = good;
        bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
        refused(bad);
    }
}

// Headers that agree with their own checksum but not with the file: sizes must not be believed.
TEST(TokenShard, NumbersInTheHeaderAreComparedWithTheFile) {
    const Folder folder;
    write_shard(folder / "good.sbtk", counting(50, 300), 300);
    const std::string good = folder.read("good.sbtk");
    struct Change {
        std::size_t offset;
        std::uint64_t value;
        std::size_t bytes;
    };
    for (const Change change : {Change{8, 0, 4},
                                {8, 1, 4},
                                {8, 4, 4},
                                {8, 0xFFFFFFFF, 4},
                                {16, 49, 8},
                                {16, 51, 8},
                                {16, 0, 8},
                                {16, ~0ull, 8},
                                {16, 1ull << 63, 8},
                                {16, (1ull << 63) + 50, 8},
                                {24, 0, 8},
                                {24, 200, 8},
                                {24, ~0ull, 8},
                                {12, 1, 4},
                                {4, 2, 4}}) {
        std::string bad = good;
        std::memcpy(bad.data() + change.offset, &change.value, change.bytes);
        const std::uint64_t checksum = XXH64(bad.data(), 48, 0);
        std::memcpy(bad.data() + 48, &checksum, 8);
        const auto path = folder.write("bad.sbtk", bad);
        expect_error(ErrorCode::kData, {"bad.sbtk"}, [&] { TokenShard(path, {}); });
    }
}

TEST(TokenShard, RandomBytesNeverDoMoreThanFail) {
    const Folder folder;
    write_shard(folder / "good.sbtk", counting(200, 5000), 5000);
    const std::string good = folder.read("good.sbtk");
    std::mt19937 random(11);
    int refused = 0;
    for (int i = 0; i < 1500; ++i) {
        std::string bytes = i % 3 == 0 ? std::string(random() % 2000, '\0') : good;
        const auto changes = i % 3 == 0 ? bytes.size() : 1 + random() % 20;
        for (std::size_t c = 0; c < changes && !bytes.empty(); ++c) {
            bytes[random() % bytes.size()] = static_cast<char>(random());
        }
        if (i % 3 == 2) bytes.resize(random() % 3000, 'x');
        const auto path = folder.write(i % 2 == 0 ? "x.bin" : "x.sbtk", bytes);
        try {
            const TokenShard shard(path, {.vocab_size = 5000});
            for (const std::int64_t id : all_ids(shard)) ASSERT_LT(id, 5000);
        } catch (const Error& error) {
            ASSERT_EQ(error.code(), ErrorCode::kData) << error.what();
            ++refused;
        }
    }
    EXPECT_GT(refused, 1000);
}

TEST(TokenShard, AFileThatShrinksWhileInUseIsAnError) {
    const Folder folder;
    write_shard(folder / "a.sbtk", counting(1000, 300), 300);
    const TokenShard shard(folder / "a.sbtk", {});
    std::filesystem::resize_file(folder / "a.sbtk", 500);
    expect_error(ErrorCode::kData, {"a.sbtk", "ends at byte 500"}, [&] { all_ids(shard); });
}

// The limit on the size of files stands for a full disk: write() fails in the middle.
class FullDisk {
public:
    explicit FullDisk(rlim_t bytes) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        signal_ = std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{bytes, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FullDisk() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, signal_);
    }

private:
    rlimit before_{};
    void (*signal_)(int);
};

TEST(ShardWriter, AFullDiskLeavesNothingBehind) {
    const Folder folder;
    folder.write("old.sbtk", "what was there before");
    for (const rlim_t room : {0, 30, 64, 5000}) {
        const FullDisk disk(room);
        expect_error(ErrorCode::kData, {"old.sbtk", "cannot be written"},
                     [&] { write_shard(folder / "old.sbtk", counting(10000, 300), 300); });
    }
    EXPECT_EQ(folder.names(), std::vector<std::string>{"old.sbtk"});
    EXPECT_EQ(folder.read("old.sbtk"), "what was there before");
}

TEST(ShardWriter, WithoutFinishOrPermissionThereIsNoFile) {
    const Folder folder;
    {
        ShardWriter writer(folder / "a.sbtk", 100, 0);
        writer.append(counting(10, 100));
    }
    EXPECT_TRUE(folder.names().empty());
    expect_error(ErrorCode::kData, {"none/a.sbtk", "No such file"},
                 [&] { ShardWriter(folder / "none/a.sbtk", 100, 0); });
}

TEST(TokenStream, JoinsSourcesAndCutsSlices) {
    const Folder folder;
    write_shard(folder / "a.sbtk", {0, 1, 2}, 10);
    write_shard(folder / "b.sbtk", {}, 10);
    write_shard(folder / "c.sbtk", {3, 4, 5, 6}, 10);
    const auto open = [&](const char* name) {
        return std::make_shared<TokenShard>(folder / name, TokenShard::Options{});
    };
    const TokenStream stream({open("a.sbtk"), open("b.sbtk"), open("c.sbtk")});
    ASSERT_EQ(stream.size(), 7);
    for (std::int64_t begin = 0; begin <= 7; ++begin) {
        for (std::int64_t end = begin; end <= 7; ++end) {
            const TokenStream part = stream.slice(begin, end);
            std::vector<std::int64_t> ids(static_cast<std::size_t>(part.size()));
            part.read(0, ids);
            for (std::size_t i = 0; i < ids.size(); ++i) {
                EXPECT_EQ(ids[i], begin + static_cast<std::int64_t>(i));
            }
        }
    }
    EXPECT_NE(stream.checksum(), stream.slice(0, 6).checksum());
    EXPECT_NE(stream.slice(1, 7).checksum(), stream.slice(0, 6).checksum());
    std::vector<std::int64_t> ids(4);
    EXPECT_THROW(stream.slice(0, 3).read(0, ids), Error);
    EXPECT_THROW(stream.slice(4, 8), Error);
}

TEST(TokenStream, DifferentVocabulariesAreNotJoined) {
    const Folder folder;
    write_shard(folder / "a.sbtk", {0}, 10);
    write_shard(folder / "b.sbtk", {0}, 11);
    const auto a = std::make_shared<TokenShard>(folder / "a.sbtk", TokenShard::Options{});
    const auto b = std::make_shared<TokenShard>(folder / "b.sbtk", TokenShard::Options{});
    expect_error(ErrorCode::kData, {"a.sbtk", "b.sbtk", "10", "11"}, [&] { TokenStream({a, b}); });
    expect_error(ErrorCode::kData, {"token 1 is 10"}, [&] {
        TokenStream(std::vector<std::int32_t>{9, 10}, 10);
    });
}

}  // namespace
}  // namespace subbyte::data
