// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "subbyte/core/error.h"
#include "subbyte/data/bpe_definition.h"

namespace subbyte::data {
namespace {

using Json = nlohmann::json;
using Ids = std::unordered_map<std::string, std::int32_t>;

constexpr const char* kOtherTokenizer =
    "use the tokenizer.model of the model where there is one, or a model with a byte-level BPE "
    "tokenizer (GPT-2, LLaMA 3, SmolLM)";

// One member after the other of a parsed file, with its name in every refusal.
class JsonPart {
public:
    JsonPart(const Json& value, std::string where) : json_(value), where_(std::move(where)) {}

    [[noreturn]] void fail(const std::string& message) const {
        throw Error(ErrorCode::kData, fmt::format("{}: {}", where_, message), kOtherTokenizer);
    }

    // null and absent members are the same.
    bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }

    JsonPart object(const char* key) const { return part(key, Json::value_t::object, "an object"); }
    JsonPart list(const char* key) const { return part(key, Json::value_t::array, "a list"); }

    std::string text(const char* key) const {
        if (!has(key) || !json_[key].is_string()) fail(fmt::format("'{}' is no text", key));
        return json_[key].get<std::string>();
    }
    bool flag(const char* key, bool absent) const {
        if (!has(key)) return absent;
        if (!json_[key].is_boolean()) fail(fmt::format("'{}' is neither true nor false", key));
        return json_[key].get<bool>();
    }
    // Refuses a member that asks for something else than `harmless`.
    void must_be(const char* key, const Json& harmless) const {
        if (has(key) && json_[key] != harmless) {
            fail(fmt::format("'{}' is {}, which is not supported", key, json_[key].dump()));
        }
    }
    std::vector<JsonPart> items() const {
        std::vector<JsonPart> all;
        for (std::size_t i = 0; i < json_.size(); ++i) {
            all.emplace_back(json_[i], fmt::format("{}[{}]", where_, i));
            if (!json_[i].is_object()) all.back().fail("an object expected");
        }
        return all;
    }
    const Json& json() const { return json_; }
    const std::string& where() const { return where_; }

private:
    JsonPart part(const char* key, Json::value_t type, const char* expected) const {
        if (!has(key) || json_[key].type() != type) {
            fail(fmt::format("'{}' is not there or is not {}", key, expected));
        }
        return {json_[key], fmt::format("{}: {}", where_, key)};
    }

    const Json& json_;
    std::string where_;
};

Json parse_object(std::string_view text, const std::string& name) {
    Json parsed = Json::parse(text, nullptr, false);
    if (!parsed.is_object()) {
        throw Error(ErrorCode::kData, fmt::format("{}: is no JSON object", name),
                    "the file is damaged; fetch it again");
    }
    return parsed;
}

std::int32_t id_of(const Json& value, std::int64_t limit, const JsonPart& where,
                   const std::string& token) {
    if (!value.is_number_integer() || value < 0 || value >= limit) {
        where.fail(fmt::format("the id of '{}' is {}, {} tokens have the ids 0 to {}", token,
                               value.dump(), limit, limit - 1));
    }
    return value.get<std::int32_t>();
}

// tokens and added, from "model.vocab" and "added_tokens".
Ids read_tokens(const JsonPart& root, const JsonPart& model, BpeDefinition& d) {
    const JsonPart vocab = model.object("vocab");
    std::vector<JsonPart> added;
    if (root.has("added_tokens")) added = root.list("added_tokens").items();
    std::size_t beyond = 0;
    for (const JsonPart& token : added) {
        beyond += vocab.json().contains(token.text("content")) ? 0 : 1;
    }
    const auto limit = static_cast<std::int64_t>(vocab.json().size() + beyond);
    if (limit > (1 << 24)) vocab.fail(fmt::format("{} tokens, at most 2^24 expected", limit));
    d.tokens.resize(static_cast<std::size_t>(limit));
    std::vector<bool> used(d.tokens.size());
    Ids ids;
    const auto place = [&](const std::string& token, std::int32_t id, const JsonPart& where) {
        const auto at = static_cast<std::size_t>(id);
        if (used[at]) where.fail(fmt::format("id {} is '{}' and '{}'", id, d.tokens[at], token));
        used[at] = true;
        d.tokens[at] = token;
        ids.emplace(token, id);
    };
    for (const auto& [token, id] : vocab.json().items()) {
        place(token, id_of(id, limit, vocab, token), vocab);
    }
    for (const JsonPart& part : added) {
        AddedToken token{0, part.text("content"), part.flag("special", false),
                         part.flag("normalized", true)};
        for (const char* option : {"single_word", "lstrip", "rstrip"}) part.must_be(option, false);
        if (token.content.empty()) part.fail("'content' is empty");
        if (!part.has("id")) part.fail("'id' is missing");
        token.id = id_of(part.json()["id"], limit, part, token.content);
        if (!vocab.json().contains(token.content)) place(token.content, token.id, part);
        if (d.tokens[static_cast<std::size_t>(token.id)] != token.content) {
            part.fail(fmt::format("'{}' has id {} here and {} in the vocabulary", token.content,
                                  token.id, ids.at(token.content)));
        }
        d.added.push_back(std::move(token));
    }
    return ids;  // as many as there are ids, none twice: no holes
}

void read_merges(const JsonPart& model, const Ids& ids, BpeDefinition& d) {
    const JsonPart merges = model.list("merges");
    for (std::size_t i = 0; i < merges.json().size(); ++i) {
        const Json& merge = merges.json()[i];
        std::string left, right;
        if (merge.is_string()) {
            const std::string text = merge.get<std::string>();
            const std::size_t blank = text.find(' ');
            left = text.substr(0, blank);
            if (blank != text.npos) right = text.substr(blank + 1);
        } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                   merge[1].is_string()) {
            left = merge[0].get<std::string>(), right = merge[1].get<std::string>();
        }
        const auto a = ids.find(left), b = ids.find(right), ab = ids.find(left + right);
        if (a == ids.end() || b == ids.end() || ab == ids.end()) {
            merges.fail(fmt::format("entry {} is {}: not two tokens that give a third", i,
                                    merge.dump(-1, ' ', false, Json::error_handler_t::replace)));
        }
        d.merges.emplace_back(a->second, b->second);
        d.merged.push_back(ab->second);
    }
}

void read_step(const JsonPart& step, bool& ended, BpeDefinition& d) {
    const std::string type = step.text("type");
    if (ended) step.fail("a step after ByteLevel");
    if (type == "Digits") {
        d.steps.push_back({step.flag("individual_digits", false) ? "\\p{N}" : "\\p{N}+"});
    } else if (type == "Split") {
        const JsonPart pattern = step.object("pattern");
        const std::string behavior = step.text("behavior");
        const bool inverted = step.flag("invert", false);
        if (behavior != "Isolated" && !(behavior == "Removed" && inverted)) {
            step.fail(
                fmt::format("behaviour {} with invert {} is not supported", behavior, inverted));
        }
        if (pattern.has("Regex")) {
            d.steps.push_back({pattern.text("Regex"), behavior == "Isolated"});
        } else {
            pattern.fail("a 'Regex' expected");
        }
    } else if (type == "ByteLevel") {
        step.must_be("add_prefix_space", false);
        if (step.flag("use_regex", true)) d.steps.push_back({std::string(gpt2_pattern())});
        ended = true;
    } else {
        step.fail(fmt::format("type {} is not supported", type));
    }
}

void read_steps(const JsonPart& root, BpeDefinition& d) {
    bool byte_level = false;
    const JsonPart first = root.object("pre_tokenizer");
    if (first.text("type") == "Sequence") {
        for (const JsonPart& step : first.list("pretokenizers").items()) {
            read_step(step, byte_level, d);
        }
    } else {
        read_step(first, byte_level, d);
    }
    if (!byte_level) first.fail("has no step ByteLevel");
}

// "bos_token" and "eos_token": a text or an object with its content; null: none.
std::int32_t read_mark(const JsonPart& config, const char* key, const Ids& ids) {
    if (!config.has(key)) return -1;
    const bool nested = config.json()[key].is_object();
    const std::string token = nested ? config.object(key).text("content") : config.text(key);
    const auto found = ids.find(token);
    if (found == ids.end()) config.fail(fmt::format("'{}' is '{}', which is no token", key, token));
    return found->second;
}

}  // namespace

std::string_view gpt2_pattern() {
    return "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
}

std::string_view llama3_pattern() {
    return "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
           " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
}

BpeDefinition parse_tokenizer_json(std::string_view text, std::string_view config_text,
                                   const std::string& name) {
    const Json tokenizer = parse_object(text, name);
    const JsonPart root(tokenizer, name);
    const JsonPart model = root.object("model");
    if (model.has("type") && model.text("type") != "BPE") {
        model.fail(fmt::format("type {} is not supported", model.text("type")));
    }
    model.must_be("byte_fallback", false);
    model.must_be("continuing_subword_prefix", "");
    model.must_be("end_of_word_suffix", "");
    model.must_be("dropout", 0.0);
    if (root.has("normalizer")) root.fail("'normalizer': normalising text is not supported");
    BpeDefinition d;
    d.ignore_merges = model.flag("ignore_merges", false);
    read_steps(root, d);
    const Ids ids = read_tokens(root, model, d);
    read_merges(model, ids, d);
    if (model.has("unk_token")) {
        const auto unknown = ids.find(model.text("unk_token"));
        if (unknown == ids.end()) model.fail("'unk_token' is no token");
        d.unknown = unknown->second;
    }
    if (config_text.empty()) return d;
    const std::string config_name = name + " (tokenizer_config.json)";
    const Json config_json = parse_object(config_text, config_name);
    const JsonPart config(config_json, config_name);
    d.bos = read_mark(config, "bos_token", ids);
    d.eos = read_mark(config, "eos_token", ids);
    return d;
}

}  // namespace subbyte::data
