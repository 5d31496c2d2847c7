// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/formats/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "subbyte/core/error.h"

namespace subbyte::formats {
namespace {

constexpr std::int64_t kLargestTile = std::int64_t{1} << 20;

constexpr std::array<NamedSpec, 5> kNamed{{
    {"fp8", "e4m3:1x128:f32"},
    {"fp4", "e2m1:1x128:f32"},
    {"mxfp8", "e4m3:1x32:e8m0/floor"},
    {"mxfp4", "e2m1:1x32:e8m0/floor"},
    {"nvfp4", "e2m1:1x16:ue4m3+f32"},
}};

constexpr std::array kScales{ScaleFormat::kFp32, ScaleFormat::kE8m0, ScaleFormat::kUe4m3};
constexpr std::array kRules{ScaleRule::kFloor, ScaleRule::kCeil, ScaleRule::kRceil,
                            ScaleRule::kEven};

// Recursive descent over one line of text. `position_` is always the first character not yet
// understood, which is where an error points.
class Parser {
public:
    explicit Parser(std::string_view text) : text_(text) {}

    QuantSpec parse() {
        const std::string_view head = word();
        QuantSpec spec;
        const auto named = std::find_if(kNamed.begin(), kNamed.end(),
                                        [&](const NamedSpec& row) { return row.name == head; });
        if (named != kNamed.end()) {
            spec = Parser(named->text).parse();
            accept(head);
        } else if (head == "fp32") {
            accept(head);
        } else {
            spec.element = find_element(head);
            if (spec.element == nullptr) fail("an element or an abbreviation", head_names());
            accept(head);
            if (spec.element->bits < 16) scaled(spec);
        }
        options(spec);
        return spec;
    }

private:
    void scaled(QuantSpec& spec) {
        expect(':', "':' and a tile");
        spec.tile = tile();
        expect(':', "':' and a scale");
        const auto format = std::find_if(kScales.begin(), kScales.end(),
                                         [&](ScaleFormat f) { return scale_name(f) == word(); });
        if (format == kScales.end()) fail("a scale", "f32, e8m0, ue4m3");
        spec.scale = *format;
        accept(word());
        if (spec.scale == ScaleFormat::kE8m0) spec.rule = ScaleRule::kFloor;
        if (peek() == '/') {
            if (spec.scale != ScaleFormat::kE8m0) fail("no rule: only e8m0 has rules", "");
            ++position_;
            const auto rule = std::find_if(kRules.begin(), kRules.end(), [&](ScaleRule r) {
                return scale_rule_name(r) == word();
            });
            if (rule == kRules.end()) fail("a scale rule", "floor, ceil, rceil, even");
            spec.rule = *rule;
            accept(word());
        }
        if (peek() == '+') {
            if (spec.scale != ScaleFormat::kUe4m3) fail("no second level: only ue4m3 has one", "");
            ++position_;
            if (word() != "f32") fail("the format of the second level", "f32");
            accept(word());
            spec.second_level = true;
        }
    }

    Tile tile() {
        const std::string_view name = word();
        if (name == "tensor" || name == "row") {
            accept(name);
            return name == "row" ? Tile::row() : Tile::tensor();
        }
        if (peek() < '0' || peek() > '9') fail("a tile", "tensor, row, RxC such as 1x128");
        const std::int64_t rows = number();
        expect('x', "'x' between the rows and the columns of a tile");
        return Tile::block(rows, number());
    }

    std::int64_t number() {
        std::int64_t value = 0;
        const char* const begin = text_.data() + position_;
        const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
        if (end == begin || *begin == '-' || *begin == '0') fail("a number from 1 on", "");
        if (error != std::errc{} || value > kLargestTile) {
            fail(fmt::format("a tile size of at most {}", kLargestTile), "");
        }
        position_ += static_cast<std::size_t>(end - begin);
        return value;
    }

    void options(QuantSpec& spec) {
        while (position_ < text_.size()) {
            if (peek() != ':') fail("':' or the end", "");
            if (spec.is_fp32()) fail("nothing more: fp32 has no tile, scale or option", "fp32");
            ++position_;
            if (word() != "sr") {
                fail(spec.is_scaled() ? "an option" : "an option: bf16 has no tile and no scale",
                     "sr");
            }
            if (spec.stochastic()) fail("each option once", "");
            accept(word());
            spec.rounding = Rounding::kStochastic;
        }
    }

    char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }

    // The run of letters and digits that starts here.
    std::string_view word() const {
        std::size_t end = position_;
        while (end < text_.size() && ((text_[end] >= 'a' && text_[end] <= 'z') ||
                                      (text_[end] >= '0' && text_[end] <= '9'))) {
            ++end;
        }
        return text_.substr(position_, end - position_);
    }

    void accept(std::string_view piece) { position_ += piece.size(); }

    void expect(char c, std::string_view what) {
        if (peek() != c) fail(what, "");
        ++position_;
    }

    static std::string head_names() {
        std::vector<std::string_view> names;
        for (const ElementFormat& format : element_formats()) names.push_back(format.name);
        names.push_back("fp32");
        for (const NamedSpec& row : kNamed) names.push_back(row.name);
        return fmt::format("{}", fmt::join(names, ", "));
    }

    // Shows the text with a caret under the first wrong character. Unprintable bytes are shown as
    // '?'.
    [[noreturn]] void fail(std::string_view expected, std::string_view choices) const {
        std::string shown(text_);
        for (char& c : shown) {
            if (c < ' ' || c > '~') c = '?';
        }
        throw Error(ErrorCode::kUsage,
                    fmt::format("bad format spec '{}', character {}: expected {}\n    {}\n    {}^",
                                shown, position_ + 1, expected, shown, std::string(position_, ' ')),
                    choices.empty()
                        ? "write <element>:<tile>:<scale>[/<rule>][+f32][:sr], e.g. e4m3:1x128:f32"
                        : fmt::format("use one of: {}", choices));
    }

    std::string_view text_;
    std::size_t position_ = 0;
};

std::string tile_text(const Tile& tile) {
    switch (tile.kind) {
        case Tile::Kind::kTensor: return "tensor";
        case Tile::Kind::kRow: return "row";
        case Tile::Kind::kBlock: break;
    }
    return fmt::format("{}x{}", tile.rows, tile.cols);
}

}  // namespace

std::span<const NamedSpec> named_specs() { return kNamed; }

QuantSpec parse_spec(std::string_view text) { return Parser(text).parse(); }

std::string to_string(const QuantSpec& spec) {
    if (spec.is_fp32()) return "fp32";
    std::string text(spec.element->name);
    if (spec.is_scaled()) {
        text += fmt::format(":{}:{}", tile_text(spec.tile), scale_name(spec.scale));
        if (spec.scale == ScaleFormat::kE8m0) {
            const bool unset = spec.rule == ScaleRule::kDefault;
            text += fmt::format("/{}", scale_rule_name(unset ? ScaleRule::kFloor : spec.rule));
        }
        if (spec.second_level) text += "+f32";
    }
    if (spec.stochastic()) text += ":sr";
    return text;
}

double bits_per_value(const QuantSpec& spec, std::int64_t rows, std::int64_t cols) {
    if (rows <= 0 || cols <= 0) return 0.0;
    const double values = static_cast<double>(rows) * static_cast<double>(cols);
    const std::int64_t element_bits = spec.is_fp32() ? 32 : spec.element->bits;
    const std::int64_t row_bytes = (cols * element_bits + 7) / 8;
    double bits = static_cast<double>(rows) * static_cast<double>(row_bytes) * 8;
    if (spec.is_scaled()) {
        const double scale_bits = spec.scale == ScaleFormat::kFp32 ? 32 : 8;
        bits += static_cast<double>(TileGrid(spec.tile, rows, cols).count()) * scale_bits;
    }
    if (spec.second_level) bits += 32;
    return bits / values;
}

}  // namespace subbyte::formats
