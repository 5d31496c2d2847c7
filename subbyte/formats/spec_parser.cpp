// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/formats/spec.h"
#include "subbyte/formats/spec_options.h"

namespace subbyte::formats {
namespace {

constexpr std::int64_t kLargestTile = std::int64_t{1} << 20;
constexpr std::string_view kGrammar =
    "write <element>:<tile>:<scale>[/<rule>][+f32][:<option>...], e.g. e4m3:1x128:f32 or "
    "e2m1:1x16:ue4m3+f32:sr";

// Recursive descent over one line of text. `position_` is always the first character not yet
// understood, which is where an error points.
class Parser {
public:
    explicit Parser(std::string_view text) : text_(text) {}

    QuantSpec parse() {
        const std::string_view head = word();
        QuantSpec spec;
        const auto& names = named_specs();
        const auto named = std::find_if(names.begin(), names.end(),
                                        [&](const NamedSpec& row) { return row.name == head; });
        const ElementFormat* const element = find_element(head);
        // Of a word that is both, a tile makes the element.
        if (named != names.end() && !(element != nullptr && tile_follows(head))) {
            spec = Parser(named->text).parse();
            accept(head);
        } else if (head == "fp32") {
            accept(head);
        } else {
            spec.element = element;
            if (element == nullptr) expected("an element or an abbreviation", head_names());
            accept(head);
            if (element->bits < 16) scaled(spec);
        }
        options(spec);
        return spec;
    }

private:
    void scaled(QuantSpec& spec) {
        expect(':', "':' and a tile");
        spec.tile = tile();
        expect(':', "':' and a scale");
        spec.scale = scale();
        if (spec.scale == ScaleFormat::kE8m0) spec.rule = ScaleRule::kFloor;
        if (peek() == '/') {
            ++position_;
            spec.rule = rule(spec.scale);
        }
        if (peek() != '+') return;
        ++position_;
        if (word() != "f32") expected("the format of the second level", "f32");
        accept(word());
        spec.second_level = true;
        if (peek() != '@') return;
        ++position_;
        const std::size_t start = position_;
        spec.level_tile = tile();
        const bool whole = spec.level_tile.kind == Tile::Kind::kBlock &&
                           spec.tile.kind == Tile::Kind::kBlock &&
                           spec.level_tile.rows % spec.tile.rows == 0 &&
                           spec.level_tile.cols % spec.tile.cols == 0;
        if (!whole) fail(start, "a second level spans whole tiles RxC", "e.g. 1x128 over 1x16");
    }

    ScaleFormat scale() {
        const std::string_view name = word();
        std::vector<std::string_view> names;
        for (const ScaleFormat format : scale_formats()) {
            if (scale_name(format) == name) {
                accept(name);
                return format;
            }
            names.push_back(scale_name(format));
        }
        expected("a scale", fmt::format("{}", fmt::join(names, ", ")));
    }

    ScaleRule rule(ScaleFormat format) {
        const std::string_view name = word();
        std::vector<std::string_view> names;
        for (const ScaleRule candidate : scale_rules(format)) {
            if (scale_rule_name(candidate) == name) {
                accept(name);
                return candidate;
            }
            names.push_back(scale_rule_name(candidate));
        }
        expected(fmt::format("a rule of {} scales", scale_name(format)),
                 fmt::format("{}", fmt::join(names, ", ")));
    }

    bool tile_follows(std::string_view head) const {
        Parser ahead = *this;
        ahead.accept(head);
        if (ahead.peek() != ':') return false;
        ++ahead.position_;
        const std::string_view name = ahead.word();
        return name == "tensor" || name == "row" ||
               (!name.empty() && name.find('x') != std::string_view::npos &&
                name.find_first_not_of("0123456789x") == std::string_view::npos);
    }

    Tile tile() {
        const std::string_view name = word();
        if (name == "tensor" || name == "row") {
            accept(name);
            return name == "row" ? Tile::row() : Tile::tensor();
        }
        if (peek() < '0' || peek() > '9') expected("a tile", "tensor, row, RxC such as 1x128");
        const std::int64_t rows = number();
        expect('x', "'x' between the rows and the columns of a tile");
        return Tile::block(rows, number());
    }

    std::int64_t number() {
        std::int64_t value = 0;
        const char* const begin = text_.data() + position_;
        const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
        if (end == begin || *begin == '-' || *begin == '0') expected("a number from 1 on", "");
        if (error != std::errc{} || value > kLargestTile) {
            expected(fmt::format("a tile size of at most {}", kLargestTile), "");
        }
        position_ += static_cast<std::size_t>(end - begin);
        return value;
    }

    void options(QuantSpec& spec) {
        struct Seen {
            OptionGroup group;
            std::size_t position;
        };
        std::vector<Seen> seen;
        while (position_ < text_.size()) {
            if (peek() != ':') expected("':' or the end", "");
            if (spec.is_fp32()) fail(position_, "fp32 takes no option", "write fp32 alone");
            ++position_;
            const OptionWord& option = option_word();
            if (!spec.is_scaled() && option.word != "sr") {
                fail(position_, fmt::format("bf16 does not take '{}'", option.word),
                     "bf16 and bf16:sr are all there is: no tile, no scale");
            }
            const bool again = std::any_of(seen.begin(), seen.end(), [&](const Seen& other) {
                return other.group == option.group;
            });
            if (again) fail(position_, "a second option of the same kind", "give each kind once");
            seen.push_back({option.group, position_});
            accept(option.word);
            option.apply(spec);
        }
        for (const Seen& option : seen) {
            const std::string conflict = option_conflict(spec, option.group);
            if (!conflict.empty())
                fail(option.position, conflict, "leave it out, or change the rest of the spec");
        }
    }

    const OptionWord& option_word() const {
        std::vector<std::string_view> names;
        for (const OptionWord& option : option_words()) {
            if (option.word == word()) return option;
            const bool counted = option.word.starts_with("sr") && option.word != "sr";
            if (!counted) names.push_back(option.word);
        }
        expected("an option", fmt::format("{}, sr1 ... sr15", fmt::join(names, ", ")));
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
        if (peek() != c) expected(what, "");
        ++position_;
    }

    static std::string head_names() {
        std::vector<std::string_view> names;
        for (const NamedSpec& row : named_specs()) names.push_back(row.name);
        names.push_back("fp32");
        for (const ElementFormat& format : element_formats()) names.push_back(format.name);
        return fmt::format("{}; or any e<x>m<y> of at most 8 bits", fmt::join(names, ", "));
    }

    [[noreturn]] void expected(std::string_view what, std::string_view choices) const {
        fail(position_, fmt::format("expected {}", what),
             choices.empty() ? std::string(kGrammar) : fmt::format("use one of: {}", choices));
    }

    // Shows the text with a caret under the first wrong character. Unprintable bytes are shown as
    // '?'.
    [[noreturn]] void fail(std::size_t position, std::string_view what, std::string hint) const {
        std::string shown(text_);
        for (char& c : shown) {
            if (c < ' ' || c > '~') c = '?';
        }
        throw Error(ErrorCode::kUsage,
                    fmt::format("bad format spec '{}', character {}: {}\n    {}\n    {}^", shown,
                                position + 1, what, shown, std::string(position, ' ')),
                    std::move(hint));
    }

    std::string_view text_;
    std::size_t position_ = 0;
};

}  // namespace

QuantSpec parse_spec(std::string_view text) { return Parser(text).parse(); }

}  // namespace subbyte::formats
