// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/spec.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/core/philox.h"
#include "tests/error_of.h"

namespace subbyte::formats {
namespace {

std::vector<std::string> every_combination() {
    std::vector<std::string> texts{"bf16", "bf16:sr", "fp32"};
    for (const char* element : {"e4m3", "e5m2", "e2m1", "int8", "int4"}) {
        for (const char* tile :
             {"tensor", "row", "1x16", "1x128", "128x128", "16x16", "7x3", "1048576x1"}) {
            for (const char* scale : {"f32", "e8m0/floor", "e8m0/ceil", "e8m0/rceil", "e8m0/even",
                                      "ue4m3", "ue4m3+f32"}) {
                for (const char* option : {"", ":sr"}) {
                    texts.push_back(std::string(element) + ":" + tile + ":" + scale + option);
                }
            }
        }
    }
    return texts;
}

// Everything that the few scale formats and options of every_combination() leave out.
std::vector<std::string> rarer_texts() {
    std::vector<std::string> texts;
    for (const ElementFormat& element : element_formats()) {
        if (element.bits < 16) texts.push_back(std::string(element.name) + ":1x64:f32");
    }
    for (const char* element : {"e5m1", "e3m0", "e2m2fn", "e3m3ieee", "e7m0", "e1m6"}) {
        texts.push_back(std::string(element) + ":1x32:e8m0/rceil:sr8");
    }
    for (const char* scale : {"f32/floor", "f32/ceil", "f32/rceil", "f32+f32", "f32/rceil+f32",
                              "e8m0/nearest", "e8m0/even+f32", "ue4m3/up", "ue4m3/up+f32", "ue5m3",
                              "ue5m3+f32", "ue5m3h/up+f32", "ue4m3+f32@1x128", "ue5m3+f32@2x32"}) {
        for (const char* option : {"", ":sr8", ":sr1", ":sr15", ":away", ":zero", ":up", ":down",
                                   ":rht16", ":rht32fresh", ":rht128:sr", ":rht64fresh:away"}) {
            texts.push_back(std::string("e2m1:1x16:") + scale + option);
        }
    }
    for (const char* text :
         {"e2m1:1x16:ue4m3:guard:sr", "int4:1x16:ue4m3+f32:guard", "e2m1:1x32:e8m0/floor:guard:sr",
          "e2m1:1x16:ue4m3+f32:rht32:guard:sr8", "e2m1:1x16:ue4m3+f32:4over6",
          "e2m1:16x16:ue4m3+f32:4over6mae", "e2m1:1x16:ue5m3:4over6:sr",
          "e2m1:1x16:ue4m3+f32:rht16:4over6", "int4:1x16:ue4m3+f32:teb", "e2m1:1x16:ue4m3:torchao",
          "e2m1:1x16:ue4m3+f32:torchao:sr", "e2m1:1x16:ue4m3:ggml", "e4m3:1x128:f32:recip",
          "e2m1:1x16:ue4m3+f32:rht32:mseden", "int4:1x32:ue5m3+f32@1x128:rht128fresh:mseden"}) {
        texts.emplace_back(text);
    }
    return texts;
}

TEST(Spec, ParsingAndPrintingAreInverse) {
    auto texts = every_combination();
    EXPECT_EQ(texts.size(), 3u + 5u * 8u * 7u * 2u);
    for (const std::string& text : rarer_texts()) texts.push_back(text);
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const QuantSpec spec = parse_spec(texts[i]);
        EXPECT_EQ(to_string(spec), texts[i]);
        for (std::size_t j = 0; j < i; ++j) {
            EXPECT_FALSE(spec == parse_spec(texts[j])) << texts[i] << " == " << texts[j];
        }
    }
}

TEST(Spec, PartsAreReadAsWritten) {
    const QuantSpec spec = parse_spec("e2m1:2x16:ue4m3+f32:sr");
    EXPECT_EQ(spec.element, find_element("e2m1"));
    EXPECT_EQ(spec.tile, Tile::block(2, 16));
    EXPECT_EQ(spec.scale, ScaleFormat::kUe4m3);
    EXPECT_EQ(spec.rule, ScaleRule::kDefault);
    EXPECT_TRUE(spec.second_level);
    EXPECT_TRUE(spec.stochastic());
    EXPECT_TRUE(parse_spec("fp32").is_fp32());
    EXPECT_FALSE(parse_spec("bf16").is_scaled());
    EXPECT_TRUE(spec.is_basic());
    const QuantSpec rich = parse_spec("int4:1x16:ue5m3h/up+f32@1x128:sr8:rht32fresh:guard");
    EXPECT_EQ(to_string(rich), "int4:1x16:ue5m3h/up+f32@1x128:rht32fresh:guard:sr8");
    EXPECT_EQ(rich.scale, ScaleFormat::kUe5m3h);
    EXPECT_EQ(rich.rule, ScaleRule::kUp);
    EXPECT_EQ(rich.level_tile, Tile::block(1, 128));
    EXPECT_EQ(rich.noise_bits, 8);
    EXPECT_EQ(rich.rotation, (Rotation{32, true}));
    EXPECT_TRUE(rich.guard);
    EXPECT_FALSE(rich.is_basic());
}

TEST(Spec, AbbreviationsStandForTheirText) {
    EXPECT_EQ(to_string(parse_spec("fp8")), "e4m3:1x128:f32");
    EXPECT_EQ(to_string(parse_spec("fp4")), "e2m1:1x128:f32");
    EXPECT_EQ(to_string(parse_spec("mxfp8")), "e4m3:1x32:e8m0/floor");
    EXPECT_EQ(to_string(parse_spec("mxfp4:sr")), "e2m1:1x32:e8m0/floor:sr");
    EXPECT_EQ(to_string(parse_spec("nvfp4")), "e2m1:1x16:ue4m3+f32");
    for (const NamedSpec& named : named_specs()) {
        EXPECT_EQ(to_string(parse_spec(named.name)), named.text);
    }
    EXPECT_EQ(to_string(parse_spec("int8:row:e8m0")), "int8:row:e8m0/floor");
    EXPECT_EQ(to_string(parse_spec("nvint4:rht16")), "int4:1x16:ue4m3+f32:rht16");
    // A word that is both an abbreviation and an element.
    EXPECT_EQ(to_string(parse_spec("mxint8:sr")), "mxint8:1x32:e8m0/floor:sr");
    EXPECT_EQ(to_string(parse_spec("mxint8:1x64:f32:sr")), "mxint8:1x64:f32:sr");
    EXPECT_EQ(to_string(parse_spec("e4m3fn:row:f32")), "e4m3:row:f32");
}

// Column (from 0) that the caret of the error points at; -1 when the text is accepted.
int caret(const std::string& text) {
    try {
        parse_spec(text);
        return -1;
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUsage);
        EXPECT_FALSE(error.hint().empty()) << text;
        const std::string message = error.what();
        const std::size_t line = message.rfind('\n');
        if (line == std::string::npos || message.back() != '^') return -2;
        return static_cast<int>(message.size() - line) - 2 - 4;
    }
}

TEST(Spec, ErrorsPointAtTheFirstWrongCharacter) {
    EXPECT_EQ(caret(""), 0);
    EXPECT_EQ(caret("e9m9:1x16:f32"), 0);
    EXPECT_EQ(caret("E4M3:1x16:f32"), 0);
    EXPECT_EQ(caret("e4m3"), 4);
    EXPECT_EQ(caret("e4m3;1x16:f32"), 4);
    EXPECT_EQ(caret("e4m3:"), 5);
    EXPECT_EQ(caret("e4m3:column:f32"), 5);
    EXPECT_EQ(caret("e4m3:0x16:f32"), 5);
    EXPECT_EQ(caret("e4m3:016x16:f32"), 5);
    EXPECT_EQ(caret("e4m3:1*16:f32"), 6);
    EXPECT_EQ(caret("e4m3:1x:f32"), 7);
    EXPECT_EQ(caret("e4m3:1x-3:f32"), 7);
    EXPECT_EQ(caret("e4m3:1x1048577:f32"), 7);
    EXPECT_EQ(caret("e4m3:1x99999999999999999999:f32"), 7);
    EXPECT_EQ(caret("e4m3:1x16"), 9);
    EXPECT_EQ(caret("e4m3:1x16:"), 10);
    EXPECT_EQ(caret("e4m3:1x16:f16"), 10);
    EXPECT_EQ(caret("e4m3:1x16:f32/even"), 14);
    EXPECT_EQ(caret("e4m3:1x16:f32+f16"), 14);
    EXPECT_EQ(caret("e4m3:1x16:e8m0/down"), 15);
    EXPECT_EQ(caret("e4m3:1x16:e8m0/"), 15);
    EXPECT_EQ(caret("e4m3:1x16:ue4m3/floor"), 16);
    EXPECT_EQ(caret("e4m3:1x16:ue4m3+f32/up"), 19);
    EXPECT_EQ(caret("e4m3:1x16:ue4m3+f32@"), 20);
    EXPECT_EQ(caret("e4m3:1x16:ue4m3+f32@tensor"), 20);
    EXPECT_EQ(caret("e4m3:1x16:ue4m3+f32@1x24"), 20);
    EXPECT_EQ(caret("e4m3:row:ue4m3+f32@1x128"), 19);
    EXPECT_EQ(caret("e4m3:1x16:f32:sr0"), 14);
    EXPECT_EQ(caret("e4m3:1x16:f32:sr17"), 14);
    EXPECT_EQ(caret("e4m3:1x16:f32:sr:away"), 17);
    EXPECT_EQ(caret("e4m3:1x16:f32:rht8"), 14);
    EXPECT_EQ(caret("e4m3:1x16:f32:rht16:rht32"), 20);
    EXPECT_EQ(caret("e4m3:1x16:f32:guard"), 14);
    EXPECT_EQ(caret("e4m3:1x16:e8m0/rceil:sr:guard"), 24);
    EXPECT_EQ(caret("int4:1x16:ue4m3:4over6"), 16);
    EXPECT_EQ(caret("nvfp4:4over6:guard"), 6);
    EXPECT_EQ(caret("nvfp4:mseden"), 6);
    EXPECT_EQ(caret("nvfp4:mseden:rht32:sr"), 6);
    EXPECT_EQ(caret("e2m1:16x16:ue4m3+f32:rht32:mseden"), 27);
    EXPECT_EQ(caret("e2m1:1x16:ue4m3:teb"), 16);
    EXPECT_EQ(caret("nvfp4:ggml"), 6);
    EXPECT_EQ(caret("e2m1:1x16:ue4m3:ggml:sr"), 16);
    EXPECT_EQ(caret("nvfp4:recip"), 6);
    EXPECT_EQ(caret("e2m1:1x16:ue4m3+f32@1x64:torchao"), 25);
    EXPECT_EQ(caret("e4m3:1x16:ue4m3+f16"), 16);
    EXPECT_EQ(caret("e4m3:1x16:f32:"), 14);
    EXPECT_EQ(caret("e4m3:1x16:f32:rn"), 14);
    EXPECT_EQ(caret("e4m3:1x16:f32:sr:sr"), 17);
    EXPECT_EQ(caret("e4m3:1x16:f32 "), 13);
    EXPECT_EQ(caret("bf16:1x16:f32"), 5);
    EXPECT_EQ(caret("bf16:sr:sr"), 8);
    EXPECT_EQ(caret("bf16:sr8"), 5);
    EXPECT_EQ(caret("bf16:rht16"), 5);
    EXPECT_EQ(caret("fp32:sr"), 4);
    EXPECT_EQ(caret("nvfp4:1x16"), 6);
    EXPECT_EQ(caret("mxfp4/rceil"), 5);
}

TEST(Spec, ErrorsSayWhatWouldDo) {
    const auto message = [](const char* text) {
        return error_of(ErrorCode::kUsage, [&] { parse_spec(text); });
    };
    EXPECT_EQ(message("e4m3:1x16:ue4m3/floor"),
              "bad format spec 'e4m3:1x16:ue4m3/floor', character 17: expected a rule of ue4m3 "
              "scales\n    e4m3:1x16:ue4m3/floor\n                    ^\nuse one of: up");
    EXPECT_EQ(
        message("e2m1:1x32:e8m0/ceil:guard"),
        "bad format spec 'e2m1:1x32:e8m0/ceil:guard', character 21: guard needs a ue scale or "
        "e8m0/floor: nothing is cut off with the others\n    e2m1:1x32:e8m0/ceil:guard\n"
        "                        ^\nleave it out, or change the rest of the spec");
}

TEST(Spec, RandomTextsNeverCrashAndPrintBack) {
    const std::string alphabet = "e4m321b5fxu08:/+@ nts\x01\xFFrowaictfloceilve";
    std::vector<std::string> seeds = every_combination();
    for (const std::string& text : rarer_texts()) seeds.push_back(text);
    std::uint64_t draw = 0;
    const auto random = [&](std::size_t below) {
        return static_cast<std::size_t>(noise_block({1, 0, 0, 0}, draw++)[0]) % below;
    };
    int accepted = 0;
    for (int i = 0; i < 20000; ++i) {
        std::string text = seeds[random(seeds.size())];
        for (std::size_t edits = random(4); edits > 0; --edits) {
            const std::size_t at = random(text.size() + 1);
            const char c = alphabet[random(alphabet.size())];
            switch (random(3)) {
                case 0: text.insert(text.begin() + static_cast<std::ptrdiff_t>(at), c); break;
                case 1: text = text.substr(0, at); break;
                default:
                    if (at < text.size()) text[at] = c;
            }
        }
        const int position = caret(text);
        ASSERT_NE(position, -2) << text;
        ASSERT_LE(position, static_cast<int>(text.size())) << text;
        if (position >= 0) continue;
        ++accepted;
        const QuantSpec spec = parse_spec(text);
        EXPECT_EQ(parse_spec(to_string(spec)), spec) << text;
    }
    EXPECT_GT(accepted, 1000);
}

TEST(Spec, BitsPerValueCountsCodesScalesAndPadding) {
    EXPECT_DOUBLE_EQ(bits_per_value(parse_spec("fp32"), 3, 5), 32.0);
    EXPECT_DOUBLE_EQ(bits_per_value(parse_spec("bf16"), 3, 5), 16.0);
    EXPECT_DOUBLE_EQ(bits_per_value(parse_spec("mxfp4"), 64, 128), 4.25);
    EXPECT_DOUBLE_EQ(bits_per_value(parse_spec("mxfp8"), 64, 128), 8.25);
    EXPECT_DOUBLE_EQ(bits_per_value(parse_spec("nvfp4"), 64, 128), 4.5 + 32.0 / (64 * 128));
    EXPECT_DOUBLE_EQ(bits_per_value(parse_spec("fp8"), 2, 129), 8.0 + 4 * 32.0 / 258);
    EXPECT_DOUBLE_EQ(bits_per_value(parse_spec("fp4"), 1, 3), (16.0 + 32.0) / 3);
    EXPECT_DOUBLE_EQ(bits_per_value(parse_spec("fp4"), 0, 3), 0.0);
    EXPECT_DOUBLE_EQ(bits_per_value(parse_spec("mxfp6e2m3"), 64, 128), 6.25);
    EXPECT_DOUBLE_EQ(bits_per_value(parse_spec("e2m3:row:f32"), 1, 5), (32.0 + 32.0) / 5);
    EXPECT_DOUBLE_EQ(bits_per_value(parse_spec("e2m1:1x16:ue4m3+f32@1x128"), 3, 200),
                     4.0 + 39 * 8 / 600.0 + 6 * 32 / 600.0);
}

}  // namespace
}  // namespace subbyte::formats
