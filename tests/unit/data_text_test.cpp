// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Reading text: which files are taken, what is made of them, and where they are cut.
#include "subbyte/data/text_reader.h"

#include <sys/stat.h>

#include "data_util.h"
#include "subbyte/data/utf8.h"

namespace subbyte::data {
namespace {

using std::string_literals::operator""s;

std::string read_all(const TextRange& range) {
    TextReader reader(range);
    std::string all, block;
    while (reader.next(block)) all += block;
    return all;
}

TEST(Utf8, AcceptsExactlyTheWellFormedForms) {
    // Every code point, encoded here by the definition of RFC 3629.
    const auto encode = [](std::uint32_t c) {
        std::string s;
        if (c < 0x80) {
            s += static_cast<char>(c);
        } else if (c < 0x800) {
            s += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
        } else if (c < 0x10000) {
            s += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
                  static_cast<char>(0x80 | (c & 63))};
        } else {
            s += {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
                  static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
        }
        return s;
    };
    std::size_t accepted = 0;
    for (std::uint32_t c = 0; c < 0x120000; ++c) {
        const bool scalar = c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
        const std::string bytes = encode(c);
        ASSERT_EQ(utf8_character(bytes), scalar ? bytes.size() : 0) << c;
        accepted += utf8_character(bytes) != 0;
    }
    EXPECT_EQ(accepted, 0x110000u - 0x800u);
    for (const char* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
                            "\xF5\x80\x80\x80", "\xC3", "\xE2\x96", "\xC3(", "\xFF"}) {
        EXPECT_EQ(utf8_character(bad), 0u) << bad;
    }
}

TEST(Utf8, FindsAndRepairsTheFirstBadByteAtAnyPlace) {
    for (std::size_t at = 0; at < 40; ++at) {
        std::string text(40, 'x');
        text[at] = '\xFF';
        EXPECT_EQ(find_invalid_utf8(text), at);
        EXPECT_EQ(repair_utf8(text).substr(at, 3), "\xEF\xBF\xBD");
        EXPECT_EQ(repair_utf8(text).size(), 42u);
    }
    EXPECT_EQ(find_invalid_utf8("gr\xC3\xBC\xC3\x9F"
                                "e"),
              std::string::npos);
    EXPECT_EQ(utf8_boundary("a\xE2\x96\x81z", 2), 1u);
    EXPECT_EQ(utf8_boundary("a\xE2\x96\x81z", 4), 4u);
}

TEST(TextReader, DropsByteOrderMarkAndCarriageReturns) {
    const Folder folder;
    EXPECT_EQ(read_all({folder.write("a",
                                     "\xEF\xBB\xBF"
                                     "one\r\ntwo\r\n\r\nthree")}),
              "one\ntwo\n\nthree");
    EXPECT_EQ(read_all({folder.write("b", "a lone \r stays, \r\r\n too\r")}),
              "a lone \r stays, \r\n too\r");
    EXPECT_EQ(read_all({folder.write("c",
                                     "tab\tand gr\xC3\xBC\xC3\x9F"
                                     "e")}),
              "tab\tand gr\xC3\xBC\xC3\x9F"
              "e");
}

TEST(TextReader, LargeFilesComeInBlocksThatEndAtLines) {
    const Folder folder;
    const std::string text = sample_text(15000);
    ASSERT_GT(text.size(), std::size_t{3} << 20);
    std::string dos;
    for (const char c : text) dos += c == '\n' ? "\r\n"s : std::string(1, c);
    const auto path = folder.write("large", dos);

    TextReader reader({path});
    std::string all, block;
    int blocks = 0;
    for (; reader.next(block); ++blocks) {
        EXPECT_EQ(block.back(), '\n');
        all += block;
    }
    EXPECT_GE(blocks, 3);
    EXPECT_EQ(all, text);
}

TEST(TextReader, LongLinesAreCutBetweenCharacters) {
    const Folder folder;
    std::string text;
    while (text.size() < std::size_t{3} << 20) text += "\xE4\xB8\xAD\xF0\x9F\x98\x80x";
    TextReader reader({folder.write("line", text)});
    std::string all, block;
    int blocks = 0;
    for (; reader.next(block); ++blocks) {
        EXPECT_EQ(find_invalid_utf8(block), std::string::npos);
        all += block;
    }
    EXPECT_GE(blocks, 3);
    EXPECT_TRUE(all == text);
}

TEST(TextReader, RefusesWhatIsNoText) {
    const Folder folder;
    const auto refused = [&](std::string_view content, const std::vector<std::string>& parts) {
        const auto path = folder.write("file", content);
        auto all = parts;
        all.push_back(path.string());
        expect_error(ErrorCode::kData, all, [&] { read_all({path}); });
    };
    refused("", {"is empty"});
    refused("\xEF\xBB\xBF", {"is empty"});
    refused(
        "good\xFF"
        "bad",
        {"byte 4", "0xFF", "not UTF-8"});
    refused("caf\xE9 au lait", {"byte 3", "0xE9", "not UTF-8"});
    refused("cut off \xE2\x96", {"byte 8", "0xE2"});
    refused("ab\0cd"s, {"byte 2", "binary"});
    refused("\x1F\x8B\x08junk", {"gzip"});
    refused("PK\x03\x04junk", {"zip"});
    refused("\xFF\xFEh\0i\0"s, {"UTF-16"});
    // The offset is that of the file, also beyond the first block.
    std::string late = sample_text(6000);
    const std::size_t at = late.size();
    ASSERT_GT(at, std::size_t{1} << 20);
    refused(late + "\xFE", {"byte " + std::to_string(at)});
}

TEST(TextReader, RefusesWhatIsNoFile) {
    const Folder folder;
    expect_error(ErrorCode::kData, {"missing.txt", "No such file"},
                 [&] { read_all({folder / "missing.txt"}); });
    expect_error(ErrorCode::kData, {"is a folder"}, [&] { read_all({folder.path()}); });
    ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
    expect_error(ErrorCode::kData, {"not a regular file"}, [&] { read_all({folder / "pipe"}); });
}

TEST(SplitTail, CutsAtALineAndLosesNothing) {
    const Folder folder;
    const std::string text = sample_text(100);
    const auto path = folder.write("text", text);
    for (const double fraction : {0.01, 0.05, 0.3, 0.5}) {
        const auto [front, tail] = split_tail({path}, fraction);
        ASSERT_EQ(front.size(), 1u);
        ASSERT_EQ(tail.size(), 1u);
        const std::string first = read_all(front[0]), second = read_all(tail[0]);
        EXPECT_EQ(first + second, text);
        EXPECT_EQ(first.back(), '\n');
        const double share = double(second.size()) / double(text.size());
        EXPECT_LE(share, fraction);
        EXPECT_GT(share, fraction - 0.02);
    }
}

TEST(SplitTail, TakesWholeFilesFromTheEnd) {
    const Folder folder;
    const std::string line(99, 'x');
    const auto a = folder.write("a", line + "\n"), b = folder.write("b", line + "\n");
    const auto c = folder.write("c", line + "\n"), d = folder.write("d", line + "\n");
    const auto [front, tail] = split_tail({a, b, c, d}, 0.5);
    ASSERT_EQ(front.size(), 2u);
    ASSERT_EQ(tail.size(), 2u);
    EXPECT_EQ(front[1].path, b);
    EXPECT_EQ(tail[0].path, c);
    EXPECT_EQ(tail[0].begin, 0);
}

TEST(SplitTail, TextWithoutLinesIsCutAtABlankOrBetweenCharacters) {
    const Folder folder;
    const auto words = folder.write("words", "aaaa bbbb cccc dddd");
    const auto [front, tail] = split_tail({words}, 0.4);  // 7 of 19 bytes: at byte 12, inside cccc
    EXPECT_EQ(read_all(front.at(0)), "aaaa bbbb cccc");
    EXPECT_EQ(read_all(tail.at(0)), " dddd");

    const auto wide = folder.write("wide", "\xE4\xB8\xAD\xE4\xB8\xAD\xE4\xB8\xAD\xE4\xB8\xAD");
    const auto [before, after] = split_tail({wide}, 0.4);  // at byte 8, inside the third
    EXPECT_EQ(read_all(before.at(0)).size(), 9u);
    EXPECT_EQ(read_all(after.at(0)).size(), 3u);
}

}  // namespace
}  // namespace subbyte::data
