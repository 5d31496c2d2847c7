// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/config_writer.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "subbyte/train/config_schema.h"
#include "subbyte/train/config_value.h"

namespace subbyte::train {
namespace {

constexpr std::size_t kCommentColumn = 44;

using OriginOf = std::function<std::string(std::string_view path)>;  // "" = no comment

std::string line_with_comment(std::string line, const std::string& comment) {
    if (comment.empty()) return line + "\n";
    if (line.size() < kCommentColumn) line.resize(kCommentColumn, ' ');
    return fmt::format("{}  # {}\n", line, comment);
}

// A key table wants a non-const owner; nothing is changed.
template <class Owner>
Field field_of(const Key<Owner>& key, const Owner& owner) {
    return key.field(const_cast<Owner&>(owner));
}

std::string write(const Config& config, const OriginOf& origin) {
    std::string out, section, rules;
    for (const Config::Rule& rule : config.precision.rules) {
        rules += line_with_comment(fmt::format("\n[[{}]]", kRulePath), origin(kRulePath));
        for (const Key<Config::Rule>& key : rule_keys()) {
            rules += fmt::format("{} = {}\n", key.path, value_text(field_of(key, rule)));
        }
    }
    for (const Key<Config>& key : config_keys()) {
        const std::size_t dot = key.path.rfind('.');
        if (key.path.substr(0, dot) != section) {
            section = key.path.substr(0, dot);
            out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section);
        }
        out += line_with_comment(
            fmt::format("{} = {}", key.path.substr(dot + 1), value_text(field_of(key, config))),
            origin(key.path));
    }
    return out + rules;
}

struct ToJson {
    nlohmann::json operator()(const StepCount* value) const {
        if (value->percent >= 0) return fmt::format("{}%", value->percent);
        return value->steps;
    }
    template <class T>
    nlohmann::json operator()(const T* value) const {
        return *value;
    }
};

}  // namespace

std::string to_toml(const Config& config) {
    return write(config, [](std::string_view) { return std::string(); });
}

std::string to_toml(const LoadedConfig& loaded) {
    return write(loaded.config, [&](std::string_view path) { return loaded.origin(path).text(); });
}

nlohmann::json to_json(const LoadedConfig& loaded) {
    nlohmann::json json = nlohmann::json::object();
    for (const Key<Config>& key : config_keys()) {
        json[std::string(key.path)] = {
            {"value", std::visit(ToJson{}, field_of(key, loaded.config))},
            {"origin", loaded.origin(key.path).text()}};
    }
    nlohmann::json rules = nlohmann::json::array();
    for (const Config::Rule& rule : loaded.config.precision.rules) {
        rules.push_back({{"match", rule.match}, {"recipe", rule.recipe}, {"slot", rule.slot}});
    }
    json[std::string(kRulePath)] = {{"value", rules}, {"origin", loaded.origin(kRulePath).text()}};
    return json;
}

std::string schema_text() {
    std::string out = fmt::format("{:<34} {:<24} {:<18} {}\n", "key", "type", "default", "meaning");
    const auto row = [&](const std::string& path, const Field& field, const Limits& limits,
                         std::string_view meaning) {
        out += fmt::format("{:<34} {:<24} {:<18} {}", path, type_name(field), value_text(field),
                           meaning);
        const std::string range = limits_text(limits);
        out += range.empty() ? "\n" : fmt::format(" [{}]\n", range);
    };
    const Config defaults;
    const Config::Rule rule_defaults;
    out += fmt::format("{:<34} {:<24} {:<18} {}\n", "extends", "text", "",
                       "file (relative to this one) or preset to start from");
    for (const Key<Config>& key : config_keys()) {
        row(std::string(key.path), field_of(key, defaults), key.limits, key.meaning);
    }
    for (const Key<Config::Rule>& key : rule_keys()) {
        row(fmt::format("[[{}]] {}", kRulePath, key.path), field_of(key, rule_defaults), key.limits,
            key.meaning);
    }
    return out;
}

nlohmann::json schema_json() {
    nlohmann::json json = nlohmann::json::array();
    const auto row = [&](const std::string& path, const Field& field, const Limits& limits,
                         std::string_view meaning) {
        json.push_back({{"key", path},
                        {"type", type_name(field)},
                        {"default", std::visit(ToJson{}, field)},
                        {"limits", limits_text(limits)},
                        {"meaning", meaning}});
    };
    const Config defaults;
    const Config::Rule rule_defaults;
    for (const Key<Config>& key : config_keys()) {
        row(std::string(key.path), field_of(key, defaults), key.limits, key.meaning);
    }
    for (const Key<Config::Rule>& key : rule_keys()) {
        row(fmt::format("{}[].{}", kRulePath, key.path), field_of(key, rule_defaults), key.limits,
            key.meaning);
    }
    return json;
}

}  // namespace subbyte::train
