// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/gguf_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "subbyte/core/error.h"
#include "subbyte/data/bpe_definition.h"

namespace subbyte::data {
namespace {

constexpr std::int64_t kControl = 3, kUserDefined = 4;  // token types of GGUF

[[noreturn]] void refuse_tokens(const std::string& message, const char* hint) {
    throw Error(ErrorCode::kData, message, hint);
}

bool is_llama3(const std::string& pre) {
    return pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3";
}

// The steps that llama.cpp calls `pre`, as in the tokenizer.json files of these models.
nlohmann::json pre_tokenizer(const std::string& pre, const std::string& name) {
    constexpr std::array<std::string_view, 4> kSingleDigits{"smollm", "starcoder", "refact",
                                                            "command-r"};
    nlohmann::json steps = nlohmann::json::array();
    if (is_llama3(pre)) {
        steps.push_back({{"type", "Split"},
                         {"pattern", {{"Regex", llama3_pattern()}}},
                         {"behavior", "Isolated"},
                         {"invert", false}});
    } else if (std::find(kSingleDigits.begin(), kSingleDigits.end(), pre) != kSingleDigits.end()) {
        steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
    } else if (pre != "gpt-2") {
        refuse_tokens(
            fmt::format("{}: 'tokenizer.ggml.pre' is '{}', an unknown way of cutting words", name,
                        pre),
            "known are gpt-2, smollm, starcoder, refact, command-r, llama-bpe, llama3, llama-v3");
    }
    steps.push_back({{"type", "ByteLevel"},
                     {"add_prefix_space", false},
                     {"trim_offsets", true},
                     {"use_regex", !is_llama3(pre)}});
    return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

std::string text_of(const nlohmann::json& value) {
    return value.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::pair<std::string, std::string> make_tokenizer_json(const GgufTokens& t,
                                                        const std::string& name) {
    constexpr const char* kDamagedTokens = "the file is damaged, or its maker left the rules";
    using Value = nlohmann::json;
    if (!t.types.empty() && t.types.size() != t.tokens.size()) {
        refuse_tokens(
            fmt::format("{}: {} tokens have {} types", name, t.tokens.size(), t.types.size()),
            kDamagedTokens);
    }
    Value vocab = Value::object(), added = Value::array();
    for (std::size_t id = 0; id < t.tokens.size(); ++id) {
        const std::string& token = t.tokens[id];
        const auto [entry, is_new] = vocab.emplace(token, id);
        if (!is_new) {
            refuse_tokens(fmt::format("{}: tokens {} and {} are both '{}'", name,
                                      entry->get<std::size_t>(), id, token),
                          kDamagedTokens);
        }
        const std::int64_t type = t.types.empty() ? 1 : t.types[id];
        if (type != kControl && type != kUserDefined) continue;
        added.push_back({{"id", id},
                         {"content", token},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", false},
                         {"normalized", false},
                         {"special", type == kControl}});
    }
    const Value tokenizer{{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", added},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", pre_tokenizer(t.pre, name)},
                          {"post_processor", nullptr},
                          {"decoder",
                           {{"type", "ByteLevel"},
                            {"add_prefix_space", false},
                            {"trim_offsets", true},
                            {"use_regex", true}}},
                          {"model",
                           {{"type", "BPE"},
                            {"dropout", nullptr},
                            {"unk_token", nullptr},
                            {"continuing_subword_prefix", nullptr},
                            {"end_of_word_suffix", nullptr},
                            {"fuse_unk", false},
                            {"byte_fallback", false},
                            {"ignore_merges", is_llama3(t.pre)},
                            {"vocab", std::move(vocab)},
                            {"merges", t.merges}}}};
    const auto mark = [&](std::int64_t id) {
        if (id < 0) return Value(nullptr);
        if (id >= static_cast<std::int64_t>(t.tokens.size())) {
            refuse_tokens(fmt::format("{}: mark {} of {} tokens", name, id, t.tokens.size()),
                          kDamagedTokens);
        }
        return Value(t.tokens[static_cast<std::size_t>(id)]);
    };
    Value config{{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"bos_token", mark(t.bos)},
                 {"eos_token", mark(t.eos)},
                 {"add_bos_token", t.add_bos},
                 {"clean_up_tokenization_spaces", false}};
    if (!t.chat_template.empty()) config["chat_template"] = t.chat_template;
    return {text_of(tokenizer), text_of(config)};
}

}  // namespace subbyte::data
