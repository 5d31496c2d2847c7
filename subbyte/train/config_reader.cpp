// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "subbyte/core/error.h"
#include "subbyte/core/file.h"
#include "subbyte/core/nearest.h"
#include "subbyte/train/config_check.h"
#include "subbyte/train/config_presets.h"
#include "subbyte/train/config_suggest.h"
#include "subbyte/train/config_toml.h"
#include "subbyte/train/config_value.h"

namespace subbyte::train {
namespace {

namespace fs = std::filesystem;

// A text to read, and the name under which messages and `extends` know it.
struct Source {
    std::string name, text;
    bool is_preset = false;
};

std::optional<Source> find_preset(const std::string& name) {
    const std::string_view text = config_preset_text(name);
    if (text.data() == nullptr) return std::nullopt;
    return Source{name, std::string(text), true};
}

// A file when there is one, else a preset; an unreadable file is an error.
Source find_source(const std::string& file_or_preset) {
    if (!fs::exists(file_or_preset)) {
        if (auto preset = find_preset(file_or_preset)) return *preset;
        throw Error(
            ErrorCode::kData, fmt::format("there is no configuration {}", file_or_preset),
            fmt::format("give a TOML file, or a preset: {}", fmt::join(config_presets(), ", ")));
    }
    return {file_or_preset, read_text(file_or_preset)};
}

std::string joined(std::string_view section, std::string_view name) {
    return section.empty() ? std::string(name) : fmt::format("{}.{}", section, name);
}

// Defaults of [precision] that depend on other keys. Written out in config.resolved.toml, they are
// explicit there.
void derive_precision_defaults(LoadedConfig& loaded) {
    Config::Precision& precision = loaded.config.precision;
    const auto given = [&](std::string_view path) { return loaded.origins.contains(path); };
    if (!given("precision.freeze_plan")) precision.freeze_plan = !precision.plan.empty();
    if (!given("precision.head") && precision.recipe == "fp32") precision.head = "fp32";
    Config::Snip& snip = precision.snip;
    if (!given("precision.snip.schedule") && snip.target_increment > 0) snip.schedule = "article";
    if (snip.schedule != "article" || !given("precision.snip.schedule")) return;
    if (!given("precision.snip.target_increment")) snip.target_increment = 0.1;
    if (!given("precision.snip.warmup_steps")) snip.warmup_steps = {1000, -1};
}

class Reader {
public:
    void read(const Source& source);
    void apply_set(const std::string& argument);
    LoadedConfig finish(const std::vector<std::string>& sets);

private:
    // Where the values being read stand; `set` overrides positions inside a parsed argument.
    struct Place {
        const TomlText& toml;
        std::optional<Origin> set;
        Origin at(const toml::source_position& position) const {
            return set ? *set : toml.origin(position);
        }
    };

    void extend(const toml::node& node, const Origin& at, const Source& from);
    void read_section(const toml::table& table, const std::string& path, const Place& place);
    void read_entry(const std::string& path, const std::string& section, std::string_view name,
                    const toml::node& node, const Origin& key_at, const Place& place);
    void unknown(const std::string& section, std::string_view name, const toml::node& node,
                 const Origin& at, const Place& place);
    void read_rules(const toml::node& node, const Place& place);
    template <class Owner>
    bool assign(const Key<Owner>& key, Owner& owner, const toml::node& node,
                const std::string& shown, const Place& place);
    void mistake(const Origin& where, std::string what, std::string fix = {}) {
        mistakes_.push_back({where, std::move(what), std::move(fix)});
    }

    LoadedConfig loaded_;
    std::vector<Mistake> mistakes_;
    std::set<std::string, std::less<>> unusable_;  // keys whose value was refused
    bool complete_ = true;
    std::vector<std::string> open_;  // files being read, outermost first
};

void Reader::read(const Source& source) {
    open_.push_back(source.is_preset ? source.name : fs::weakly_canonical(source.name).string());
    const TomlText toml(source.text, source.name, mistakes_);
    complete_ = complete_ && toml.complete();
    if (const toml::node* node = toml.table().get("extends")) {
        extend(*node, toml.origin(node->source().begin), source);
    }
    loaded_.files.push_back(source.name);
    read_section(toml.table(), "", Place{toml, std::nullopt});
    open_.pop_back();
}

void Reader::extend(const toml::node& node, const Origin& at, const Source& from) {
    if (!node.is_string()) {
        mistake(at, fmt::format("extends must be text, found a {}", toml_type_name(node)),
                "give one file or preset in quotes");
        return;
    }
    const std::string wanted = node.as_string()->get();
    const fs::path path =
        from.is_preset ? fs::path(wanted) : fs::path(from.name).parent_path() / wanted;
    std::optional<Source> base;
    if (!from.is_preset && fs::is_regular_file(path)) {
        base = Source{path.string(), read_text(path)};
    } else {
        base = find_preset(wanted);
    }
    if (!base) {
        complete_ = false;
        mistake(at,
                fmt::format("extends {}: there is no file {} and no such preset",
                            quote_text(wanted), path.string()),
                nearest_hint(wanted, config_presets()));
        return;
    }
    const std::string id = base->is_preset ? base->name : fs::weakly_canonical(path).string();
    if (std::find(open_.begin(), open_.end(), id) != open_.end()) {
        complete_ = false;
        mistake(at,
                fmt::format("extends {} closes a circle: {} -> {}", quote_text(wanted),
                            fmt::join(open_, " -> "), id),
                "remove one of the extends");
        return;
    }
    read(*base);
}

void Reader::read_section(const toml::table& table, const std::string& path, const Place& place) {
    for (const auto& [key, node] : table) {
        if (path.empty() && key.str() == "extends") continue;
        read_entry(joined(path, key.str()), path, key.str(), node, place.at(key.source().begin),
                   place);
    }
}

void Reader::read_entry(const std::string& path, const std::string& section, std::string_view name,
                        const toml::node& node, const Origin& key_at, const Place& place) {
    if (path == kRulePath) {
        read_rules(node, place);
    } else if (const Key<Config>* key = find_key(path)) {
        if (node.is_table()) {
            unusable_.insert(path);
            mistake(key_at, fmt::format("{} is a value, not a section", path),
                    fmt::format("write {} = {}", name, value_text(key->field(loaded_.config))));
        } else if (assign(*key, loaded_.config, node, path, place)) {
            loaded_.origins[path] = key_at;
        } else {
            unusable_.insert(path);
        }
    } else if (is_section(path)) {
        if (const toml::table* inner = node.as_table()) {
            read_section(*inner, path, place);
        } else {
            for (const Key<Config>& below : config_keys()) {
                if (below.path.starts_with(path + ".")) unusable_.emplace(below.path);
            }
            mistake(key_at,
                    fmt::format("{} is a section, found {} ({})", path, place.toml.written(node),
                                toml_type_name(node)),
                    fmt::format("write [{}]", path));
        }
    } else {
        unknown(section, name, node, key_at, place);
    }
}

void Reader::unknown(const std::string& section, std::string_view name, const toml::node& node,
                     const Origin& at, const Place& place) {
    const std::string path = joined(section, name);
    const toml::table* inner = node.as_table();
    const bool tables = node.is_array_of_tables();
    if (inner != nullptr || tables) {
        std::string known = suggest_section(path);
        if (known.empty()) known = suggest_section(name);
        mistake(at, fmt::format("unknown section [{}]", path),
                known.empty() ? std::string() : fmt::format("did you mean [{}]?", known));
        // Its keys are checked as if the name were right, to list all mistakes at once.
        if (inner != nullptr && is_section(known)) read_section(*inner, known, place);
        return;
    }
    const std::vector<std::string> near = suggest_key(section, name);
    unusable_.insert(near.begin(), near.end());
    mistake(
        at,
        section.empty() ? fmt::format("unknown key {} outside of any section", name)
                        : fmt::format("unknown key {} in [{}]", name, section),
        near.empty() ? std::string() : fmt::format("did you mean {}?", fmt::join(near, " or ")));
}

void Reader::read_rules(const toml::node& node, const Place& place) {
    const Origin at = place.at(node.source().begin);
    const toml::array* list = node.as_array();
    // An empty list is what `--set precision.rule=[]` says: no rules.
    if (list == nullptr || (!list->empty() && !node.is_array_of_tables())) {
        unusable_.emplace(kRulePath);
        mistake(at,
                fmt::format("{} must be a list of sections, found a {}", kRulePath,
                            toml_type_name(node)),
                fmt::format("write [[{}]] above its keys", kRulePath));
        return;
    }
    std::vector<Config::Rule> rules;
    for (const toml::node& item : *list) {
        Config::Rule rule;
        loaded_.origins[fmt::format("{}.{}", kRulePath, rules.size())] =
            place.at(item.source().begin);
        for (const auto& [name, value] : *item.as_table()) {
            const auto keys = rule_keys();
            const std::string_view written = name.str() == "layers" ? "match" : name.str();
            const auto key = std::find_if(keys.begin(), keys.end(),
                                          [&](const auto& k) { return k.path == written; });
            if (key == keys.end()) {
                std::vector<std::string> names;
                for (const auto& k : keys) names.emplace_back(k.path);
                unusable_.emplace(kRulePath);
                mistake(place.at(name.source().begin),
                        fmt::format("unknown key {} in [[{}]]", name.str(), kRulePath),
                        nearest_hint(name.str(), names));
            } else if (!assign(*key, rule, value, fmt::format("{}.{}", kRulePath, key->path),
                               place)) {
                unusable_.emplace(kRulePath);
            }
        }
        rules.push_back(std::move(rule));
    }
    loaded_.config.precision.rules = std::move(rules);
    loaded_.origins[std::string(kRulePath)] = at;
}

template <class Owner>
bool Reader::assign(const Key<Owner>& key, Owner& owner, const toml::node& node,
                    const std::string& shown, const Place& place) {
    Owner candidate = owner;
    const Field field = key.field(candidate);
    const std::string written = place.toml.written(node);
    Refusal refusal = store(node, written, field);
    if (refusal.what.empty()) {
        // The default is always accepted: "" or 0 may stand for "not given".
        Owner defaults;
        if (value_text(field) != value_text(key.field(defaults))) {
            refusal = check_limits(field, key.limits, written);
        }
    }
    if (refusal.what.empty()) {
        owner = std::move(candidate);
        return true;
    }
    mistake(place.at(node.source().begin), fmt::format("{} {}", shown, refusal.what), refusal.fix);
    return false;
}

void Reader::apply_set(const std::string& argument) {
    const Origin at = Origin::set(argument);
    const std::size_t equals = argument.find('=');
    const std::string path = argument.substr(0, equals);
    const std::string value = equals == argument.npos ? "" : argument.substr(equals + 1);
    const std::size_t dot = path.rfind('.');
    const std::string section = dot == path.npos ? "" : path.substr(0, dot);
    const std::string name = dot == path.npos ? path : path.substr(dot + 1);
    if (equals == argument.npos || path.empty()) {
        return mistake(at, "needs the form section.key=value", "for example --set optim.lr=3e-4");
    }
    if (find_key(section) != nullptr) {
        return mistake(at, fmt::format("{} is a value, not a section", section),
                       fmt::format("write --set {}={}", section, value));
    }
    if (value.find_first_not_of(" \t") == value.npos) {
        return mistake(at, fmt::format("{} has no value", path), "write \"\" for an empty text");
    }
    // Text keys take anything; elsewhere what is no TOML value is a bare word.
    const Key<Config>* key = find_key(path);
    const bool literal = std::string_view("\"'[{").find(value.front()) == std::string_view::npos;
    const bool is_text = key != nullptr && literal &&
                         std::holds_alternative<std::string*>(key->field(loaded_.config));
    std::vector<Mistake> syntax;
    auto toml = std::make_unique<TomlText>("v = " + (is_text ? quote_text(value) : value), argument,
                                           syntax);
    if (!syntax.empty() && literal) {
        syntax.clear();
        toml = std::make_unique<TomlText>("v = " + quote_text(value), argument, syntax);
    }
    if (!syntax.empty() || toml->table().size() != 1) {
        return mistake(at, fmt::format("{} is not a TOML value", value),
                       "quote texts, write lists as [1, 2]");
    }
    read_entry(path, section, name, *toml->table().get("v"), at, Place{*toml, at});
}

LoadedConfig Reader::finish(const std::vector<std::string>& sets) {
    for (const std::string& argument : sets) apply_set(argument);
    Config& config = loaded_.config;
    if (config.run.name.empty()) {
        config.run.name = fs::path(loaded_.files.back()).stem().string();
    }
    if (config.run.dir.empty()) config.run.dir = "runs/" + config.run.name;
    if (!loaded_.origins.contains("optim.grad_clip")) {
        config.optim.grad_clip = default_grad_clip(config.optim.name);
    }
    derive_precision_defaults(loaded_);
    if (complete_) {
        for (Mistake& wrong : check_config(loaded_, unusable_)) {
            mistakes_.push_back(std::move(wrong));
        }
    }
    throw_mistakes(std::move(mistakes_));
    return std::move(loaded_);
}

LoadedConfig load(const Source& source, const std::vector<std::string>& sets) {
    Reader reader;
    reader.read(source);
    return reader.finish(sets);
}

}  // namespace

Origin LoadedConfig::origin(std::string_view path) const {
    const auto found = origins.find(path);
    return found == origins.end() ? Origin{} : found->second;
}

LoadedConfig load_config(const std::string& file_or_preset, const std::vector<std::string>& sets) {
    return load(find_source(file_or_preset), sets);
}

LoadedConfig parse_config(std::string_view text, const std::string& name,
                          const std::vector<std::string>& sets) {
    return load({name, std::string(text)}, sets);
}

}  // namespace subbyte::train
