// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/config_toml.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

namespace subbyte::train {
namespace {

constexpr int kMaxSyntaxErrors = 50;

std::vector<std::string> split_lines(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        lines.emplace_back(text.substr(0, end));
        if (end == text.npos) break;
        text.remove_prefix(end + 1);
    }
    return lines;
}

bool is_header(std::string_view line) {
    const std::size_t start = line.find_first_not_of(" \t");
    return start != line.npos && line[start] == '[';
}

// Byte offset of the code point `column` (from 1).
std::size_t byte_offset(std::string_view line, std::size_t column) {
    std::size_t offset = 0;
    for (std::size_t seen = 1; offset < line.size() && seen < column; ++seen) {
        ++offset;
        while (offset < line.size() && (static_cast<unsigned char>(line[offset]) & 0xC0) == 0x80) {
            ++offset;
        }
    }
    return offset;
}

// The parser's words for a repeated key or section, in ours; empty for other errors.
std::string repetition(std::string_view description) {
    constexpr std::string_view kSign = "cannot redefine existing ";
    const std::size_t at = description.find(kSign);
    if (at == description.npos) return {};
    const std::string_view rest = description.substr(at + kSign.size());
    const std::size_t open = rest.find('\''), close = rest.rfind('\'');
    const std::string_view name = rest.substr(open + 1, close - open - 1);
    return rest.starts_with("table") ? fmt::format("section [{}] is given twice", name)
                                     : fmt::format("{} is given twice", name);
}

// "an integer", "text", ...: the type in the middle of a sentence.
std::string type_phrase(const Field& field) {
    std::string type = type_name(field);
    if (type.starts_with('t')) return type;  // text, true or false
    return (type.starts_with('i') ? "an " : "a ") + type;
}

std::string syntax_text(std::string_view description) {
    constexpr std::string_view kPrefix = "Error while parsing ";
    if (description.starts_with(kPrefix)) description.remove_prefix(kPrefix.size());
    return fmt::format("syntax error: {}", description);
}

Refusal wrong_type(const Field& field, const toml::node& node, const std::string& written,
                   std::string fix = {}) {
    return {
        fmt::format("must be {}, found {} ({})", type_phrase(field), written, toml_type_name(node)),
        std::move(fix)};
}

// Integers may not be written as floats; tell how to spell them.
std::string integer_spelling(const toml::node& node) {
    const double x = node.value_or(0.5);
    if (!node.is_floating_point() || x != std::floor(x) || std::fabs(x) > 9e15) return {};
    return fmt::format("write {}", static_cast<std::int64_t>(x));
}

std::string unquoted_spelling(const toml::node& node) {
    return node.is_string() ? "write it without quotes" : std::string();
}

bool read_percent(const std::string& text, double& percent) {
    if (!text.ends_with('%')) return false;
    std::size_t used = 0;
    try {
        percent = std::stod(text, &used);
    } catch (const std::exception&) {
        return false;
    }
    return used + 1 == text.size() && std::isfinite(percent) && percent >= 0;
}

struct Store {
    const toml::node& node;
    const std::string& written;
    const Field& field;

    Refusal operator()(std::int64_t* out) const {
        if (!node.is_integer()) {
            const std::string spelling = integer_spelling(node);
            return wrong_type(field, node, written,
                              spelling.empty() ? unquoted_spelling(node) : spelling);
        }
        *out = node.as_integer()->get();
        return {};
    }
    Refusal operator()(double* out) const {
        if (!node.is_number()) return wrong_type(field, node, written, unquoted_spelling(node));
        *out = *node.value<double>();
        return {};
    }
    Refusal operator()(bool* out) const {
        if (!node.is_boolean()) return wrong_type(field, node, written, unquoted_spelling(node));
        *out = node.as_boolean()->get();
        return {};
    }
    Refusal operator()(std::string* out) const {
        if (!node.is_string()) return wrong_type(field, node, written, "write it in quotes");
        *out = node.as_string()->get();
        return {};
    }
    Refusal operator()(StepCount* out) const {
        double percent = 0;
        if (node.is_string() && read_percent(node.as_string()->get(), percent)) {
            *out = StepCount::share(percent);
            return {};
        }
        if (!node.is_integer()) return wrong_type(field, node, written, integer_spelling(node));
        *out = {node.as_integer()->get()};
        return {};
    }
    Refusal operator()(std::array<double, 2>* out) const {
        const toml::array* list = node.as_array();
        if (list == nullptr) return wrong_type(field, node, written);
        if (list->size() != out->size()) {
            return {
                fmt::format("must be a list of {} numbers, found {}", out->size(), list->size()),
                {}};
        }
        for (std::size_t i = 0; i < out->size(); ++i) {
            const toml::node& element = *list->get(i);
            if (!element.is_number()) return wrong_type(field, node, written);
            (*out)[i] = *element.value<double>();
        }
        return {};
    }
    Refusal operator()(std::vector<std::string>* out) const {
        std::vector<std::string> texts;
        if (node.is_string()) texts.push_back(node.as_string()->get());
        if (const toml::array* list = node.as_array()) {
            for (const toml::node& element : *list) {
                if (!element.is_string()) return wrong_type(field, element, written);
                texts.push_back(element.as_string()->get());
            }
        } else if (!node.is_string()) {
            return wrong_type(field, node, written, "write it in quotes");
        }
        *out = std::move(texts);
        return {};
    }
    Refusal operator()(std::vector<std::int64_t>* out) const {
        std::vector<std::int64_t> numbers;
        if (const toml::array* list = node.as_array()) {
            for (const toml::node& element : *list) {
                if (!element.is_integer()) return wrong_type(field, element, written);
                numbers.push_back(element.as_integer()->get());
            }
        } else if (node.is_integer()) {
            numbers.push_back(node.as_integer()->get());
        } else {
            return wrong_type(field, node, written, integer_spelling(node));
        }
        *out = std::move(numbers);
        return {};
    }
};

}  // namespace

TomlText::TomlText(std::string_view text, std::string name, std::vector<Mistake>& mistakes)
    : name_(std::move(name)), lines_(split_lines(text)) {
    std::vector<std::string> lines = lines_;
    std::set<std::size_t> skipped;
    for (int attempt = 0; attempt < kMaxSyntaxErrors; ++attempt) {
        std::string joined;
        for (const std::string& line : lines) joined += line + "\n";
        try {
            table_ = toml::parse(std::string_view(joined), std::string_view(name_));
            return;
        } catch (const toml::parse_error& error) {
            const toml::source_position at = error.source().begin;
            if (at.line == 0 || at.line > lines.size() || !skipped.insert(at.line).second) {
                if (skipped.empty()) {
                    mistakes.push_back({origin(at), syntax_text(error.description()), {}});
                }
                break;
            }
            std::string& line = lines[at.line - 1];
            const std::string repeated = repetition(error.description());
            if (repeated.empty()) {
                complete_ = false;
                mistakes.push_back({origin(at), syntax_text(error.description()), {}});
            } else {
                const auto column = line.find_first_not_of(" \t") + 1;
                mistakes.push_back({origin({at.line, static_cast<toml::source_index>(column)}),
                                    repeated, "keep one of the two"});
            }
            // A section given twice is skipped with its keys: they would end up in another section.
            const bool header = is_header(line);
            line.clear();
            for (std::size_t i = at.line; header && i < lines.size() && !is_header(lines[i]); ++i) {
                lines[i].clear();
            }
        }
    }
    complete_ = false;
}

Origin TomlText::origin(const toml::source_position& position) const {
    return {Origin::Kind::kFile, name_, static_cast<int>(position.line),
            static_cast<int>(position.column)};
}

std::string TomlText::written(const toml::node& node) const {
    const toml::source_region& region = node.source();
    if (region.begin.line == 0 || region.begin.line != region.end.line ||
        region.begin.line > lines_.size() || node.is_table()) {
        return fmt::format("a {}", toml_type_name(node));
    }
    const std::string& line = lines_[region.begin.line - 1];
    const std::size_t begin = byte_offset(line, region.begin.column);
    std::string text = line.substr(begin, byte_offset(line, region.end.column) - begin);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) {
        text.pop_back();
    }
    return text;
}

Refusal store(const toml::node& node, const std::string& written, const Field& field) {
    return std::visit(Store{node, written, field}, field);
}

std::string_view toml_type_name(const toml::node& node) {
    switch (node.type()) {
        case toml::node_type::string: return "text";
        case toml::node_type::integer: return "integer";
        case toml::node_type::floating_point: return "float";
        case toml::node_type::boolean: return "true or false";
        case toml::node_type::array: return "list";
        case toml::node_type::table: return "section";
        default: return "date or time";
    }
}

}  // namespace subbyte::train
