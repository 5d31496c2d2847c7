// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/config_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "subbyte/core/nearest.h"

namespace subbyte::train {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
    using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

// Shortest decimal text that reads back to the same bits, and that TOML takes for a float.
std::string number_text(double x) {
    std::string text = fmt::format("{}", x);
    if (text.find_first_of(".en") == text.npos) text += ".0";
    return text;
}

Refusal number_outside(double x, const std::string& written, const Limits& limits) {
    if (!std::isfinite(x)) return {fmt::format("must be finite, found {}", written), {}};
    const bool below =
        limits.has_min && (x < limits.min || (limits.min_excluded && x == limits.min));
    const bool above =
        limits.has_max && (x > limits.max || (limits.max_excluded && x == limits.max));
    if (!below && !above) return {};
    return {fmt::format("must be {}, found {}", limits_text(limits), written), {}};
}

Refusal text_outside(const std::string& text, const Limits& limits) {
    const bool bound = limits.or_else.empty() || limits.mistake != nullptr;
    if (limits.choices == nullptr || !bound) return {};
    const std::vector<std::string> choices = limits.choices();
    if (std::find(choices.begin(), choices.end(), text) != choices.end()) return {};
    if (limits.mistake != nullptr) {
        auto [message, hint] = limits.mistake(text);
        if (message.empty()) return {};
        if (text.find('.') != text.npos) return {std::move(message), std::move(hint)};
    }
    const std::string near = nearest(text, choices);
    return {fmt::format("must be {}, found {}", limits_text(limits), quote_text(text)),
            near.empty() ? std::string() : fmt::format("did you mean \"{}\"?", near)};
}

}  // namespace

std::string type_name(const Field& field) {
    return std::visit(Overloaded{
                          [](std::int64_t*) { return "integer"; },
                          [](double*) { return "number"; },
                          [](bool*) { return "true or false"; },
                          [](std::string*) { return "text"; },
                          [](StepCount*) { return "integer or \"N%\""; },
                          [](std::array<double, 2>*) { return "list of 2 numbers"; },
                          [](std::vector<std::string>*) { return "text or list of texts"; },
                          [](std::vector<std::int64_t>*) { return "integer or list of them"; },
                      },
                      field);
}

std::string limits_text(const Limits& limits) {
    if (limits.choices != nullptr) {
        std::string text = fmt::format("{}", fmt::join(limits.choices(), " | "));
        if (!limits.or_else.empty()) text += fmt::format(" | {}", limits.or_else);
        return text;
    }
    if (limits.has_min && limits.has_max) {
        return fmt::format("{}{} .. {}{}", limits.min, limits.min_excluded ? " (excluded)" : "",
                           limits.max, limits.max_excluded ? " (excluded)" : "");
    }
    if (limits.has_min) return fmt::format("{} {}", limits.min_excluded ? ">" : ">=", limits.min);
    return std::string(limits.or_else);
}

std::string quote_text(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
            out += c;
        }
    }
    return out + '"';
}

std::string value_text(const Field& field) {
    return std::visit(
        Overloaded{
            [](std::int64_t* value) { return fmt::format("{}", *value); },
            [](double* value) { return number_text(*value); },
            [](bool* value) { return std::string(*value ? "true" : "false"); },
            [](std::string* value) { return quote_text(*value); },
            [](StepCount* value) {
                return value->percent >= 0 ? fmt::format("\"{}%\"", value->percent)
                                           : fmt::format("{}", value->steps);
            },
            [](std::array<double, 2>* value) {
                return fmt::format("[{}, {}]", number_text((*value)[0]), number_text((*value)[1]));
            },
            [](std::vector<std::string>* value) {
                std::vector<std::string> texts;
                for (const std::string& text : *value) texts.push_back(quote_text(text));
                return fmt::format("[{}]", fmt::join(texts, ", "));
            },
            [](std::vector<std::int64_t>* value) {
                return value->size() == 1 ? fmt::to_string(value->front())
                                          : fmt::format("[{}]", fmt::join(*value, ", "));
            },
        },
        field);
}

Refusal check_limits(const Field& field, const Limits& limits, const std::string& written) {
    return std::visit(
        Overloaded{
            [&](std::int64_t* value) { return number_outside(double(*value), written, limits); },
            [&](double* value) { return number_outside(*value, written, limits); },
            [](bool*) { return Refusal{}; },
            [&](std::string* value) { return text_outside(*value, limits); },
            [&](StepCount* value) {
                if (value->percent < 0) {
                    return number_outside(double(value->steps), written, limits);
                }
                if (value->percent <= 100) return Refusal{};
                return Refusal{fmt::format("must be 0% .. 100%, found {}", written), {}};
            },
            [&](std::array<double, 2>* value) {
                for (const double x : *value) {
                    Refusal refusal = number_outside(x, written, limits);
                    if (!refusal.what.empty()) return refusal;
                }
                return Refusal{};
            },
            [&](std::vector<std::int64_t>* value) {
                for (const std::int64_t number : *value) {
                    Refusal refusal = number_outside(double(number), written, limits);
                    if (!refusal.what.empty()) return refusal;
                }
                return Refusal{};
            },
            [&](std::vector<std::string>* value) {
                for (const std::string& text : *value) {
                    Refusal refusal = text_outside(text, limits);
                    if (!refusal.what.empty()) return refusal;
                }
                return Refusal{};
            },
        },
        field);
}

}  // namespace subbyte::train
