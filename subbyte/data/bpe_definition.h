// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace subbyte::data {

// A token that is found in the text before anything else is done with it.
struct AddedToken {
    std::int32_t id = 0;
    std::string content;
    bool special = false;     // a mark: vanishes when ids become text
    bool normalized = false;  // looked for after those that are not
};

// One step that cuts text into words, each step within the words of the one before.
struct SplitStep {
    std::string pattern;    // regular expression
    bool keep_gaps = true;  // what lies between the matches are words too
};

// A byte-level BPE tokenizer as its file describes it.
struct BpeDefinition {
    std::vector<std::string> tokens;  // by id, in GPT-2's letters; added tokens as they are
    std::vector<std::pair<std::int32_t, std::int32_t>> merges;
    std::vector<std::int32_t> merged;  // what each merge gives
    std::vector<AddedToken> added;
    std::vector<SplitStep> steps;
    std::int32_t unknown = -1;   // for bytes without a token; -1: they are dropped
    bool ignore_merges = false;  // a word that is a token needs no merges
    std::int32_t bos = -1, eos = -1;
};

// The patterns that GPT-2 and LLaMA 3 cut text into words with.
std::string_view gpt2_pattern();
std::string_view llama3_pattern();

// Reads Hugging Face's tokenizer.json and, for the begin and end marks, tokenizer_config.json ("":
// there is none). Error kData that begins with `name` and names the member: another kind of
// tokenizer than byte-level BPE, a normaliser, steps or options that are not supported, ids with
// holes, merges of tokens that are not there.
BpeDefinition parse_tokenizer_json(std::string_view json, std::string_view config,
                                   const std::string& name);

}  // namespace subbyte::data
