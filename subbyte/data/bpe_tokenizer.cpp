// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <unordered_map>

#include "subbyte/core/checksum.h"
#include "subbyte/core/error.h"
#include "subbyte/core/log.h"
#include "subbyte/data/bpe_definition.h"
#include "subbyte/data/bpe_merges.h"
#include "subbyte/data/byte_level.h"
#include "subbyte/data/regex.h"
#include "subbyte/data/tokenizer.h"
#include "subbyte/data/utf8.h"

namespace subbyte::data {
namespace {

// Whether the character in front of, or at, a place may be white space of any kind. Of the
// characters beyond ASCII only those that begin with these bytes can be.
bool may_be_space(std::string_view text, std::size_t at) {
    while (at > 0 && (text[at] & 0xC0) == 0x80) --at;
    const auto byte = static_cast<unsigned char>(text[at]);
    return byte <= 0x20 || byte == 0xC2 || (byte >= 0xE1 && byte <= 0xE3);
}

// The added tokens of one kind, found in the text as they are.
struct Marks {
    Regex regex;
    std::unordered_map<std::string_view, std::int32_t> ids;
};

// Byte-level BPE with the file format and the results of Hugging Face's tokenizers: added tokens
// are cut out, the rest is cut into words, and the bytes of each word are merged.
class BpeTokenizer : public Tokenizer {
public:
    BpeTokenizer(std::string_view tokenizer, std::string_view config, const std::string& name)
        : json_(tokenizer),
          config_(config),
          definition_(parse_tokenizer_json(tokenizer, config, name)) {
        BpeDefinition& d = definition_;
        fingerprint_ = checksum_of(fmt::format("{}\n{} {}", json_, d.bos, d.eos));
        std::unordered_map<std::string, std::int32_t> ids;
        for (std::size_t id = 0; id < d.tokens.size(); ++id) {
            ids.emplace(d.tokens[id], static_cast<std::int32_t>(id));
            bytes_.push_back(bytes_from_letters(d.tokens[id]).value_or(d.tokens[id]));
        }
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const auto found = ids.find(byte_letters()[byte]);
            byte_ids_[byte] = found == ids.end() ? d.unknown : found->second;
        }
        for (std::size_t i = 0; i < d.merges.size(); ++i) {
            merges_.add(d.merges[i].first, d.merges[i].second, d.merged[i]);
        }
        is_added_.resize(d.tokens.size());
        for (const AddedToken& token : d.added) {
            const auto at = static_cast<std::size_t>(token.id);
            is_added_[at] = true;
            bytes_[at] = token.special ? "" : token.content;
        }
        if (d.ignore_merges) {
            for (std::size_t id = 0; id < bytes_.size(); ++id) {
                if (!is_added_[id]) whole_words_.emplace(bytes_[id], static_cast<std::int32_t>(id));
            }
        }
        for (const bool normalized : {false, true}) add_marks(normalized, name);
        cuts_known_ = true;
        for (const SplitStep& step : d.steps) {
            steps_.emplace_back(step.pattern, name);
            cuts_known_ = cuts_known_ &&
                          (step.pattern == gpt2_pattern() || step.pattern == llama3_pattern() ||
                           step.pattern == "\\p{N}" || step.pattern == "\\p{N}+");
        }
    }

    std::string name() const override { return "bpe"; }
    std::int64_t vocab_size() const override {
        return static_cast<std::int64_t>(definition_.tokens.size());
    }
    std::int32_t bos_id() const override { return definition_.bos; }
    std::int32_t eos_id() const override { return definition_.eos; }
    std::uint64_t fingerprint() const override { return fingerprint_; }
    std::vector<TokenizerFile> files() const override {
        std::vector<TokenizerFile> all{{"tokenizer.json", json_}};
        if (!config_.empty()) all.push_back({"tokenizer_config.json", config_});
        return all;
    }

    // After a line end or before a blank, where both neighbours are no white space: no word of the
    // known patterns reaches over such a place, and none depends on what comes after it.
    std::size_t cut(std::string_view text, std::size_t at) const override {
        if (!cuts_known_) return text.npos;
        for (at = std::max<std::size_t>(at, 2); at + 1 < text.size(); ++at) {
            const bool line =
                text[at - 1] == '\n' && !may_be_space(text, at - 2) && !may_be_space(text, at);
            const bool blank =
                text[at] == ' ' && !may_be_space(text, at - 1) && !may_be_space(text, at + 1);
            if (line ? !line_in_mark_ : blank && !blank_in_mark_) return at;
        }
        return text.npos;
    }

protected:
    std::vector<std::int32_t> encode_valid(std::string_view text, bool) const override {
        std::vector<std::int32_t> ids;
        std::vector<Regex::Searcher> steps;
        for (const Regex& step : steps_) steps.emplace_back(step);
        encode_between_marks(text, 0, steps, ids);
        return ids;
    }

    std::string decode_valid(std::span<const std::int32_t> ids) const override {
        std::string text;
        for (const std::int32_t id : ids) text += bytes_[static_cast<std::size_t>(id)];
        return repair_utf8(text);
    }

private:
    using Searchers = std::vector<Regex::Searcher>;

    void add_marks(bool normalized, const std::string& name) {
        std::vector<const AddedToken*> tokens;
        for (const AddedToken& token : definition_.added) {
            if (token.normalized != normalized) continue;
            tokens.push_back(&token);
            line_in_mark_ = line_in_mark_ || token.content.find('\n') != std::string::npos;
            blank_in_mark_ = blank_in_mark_ || token.content.find(' ') != std::string::npos;
        }
        if (tokens.empty()) return;
        // Of those that begin at one place the longest counts.
        std::stable_sort(tokens.begin(), tokens.end(), [](const auto* a, const auto* b) {
            return a->content.size() > b->content.size();
        });
        std::string pattern;
        for (const AddedToken* token : tokens) {
            if (!pattern.empty()) pattern += '|';
            pattern += regex_escaped(token->content);
        }
        Marks marks{Regex(pattern, name), {}};
        for (const AddedToken* token : tokens) marks.ids.emplace(token->content, token->id);
        marks_.push_back(std::move(marks));
    }

    void encode_between_marks(std::string_view text, std::size_t kind, Searchers& steps,
                              std::vector<std::int32_t>& ids) const {
        if (kind == marks_.size()) return encode_words(text, 0, steps, ids);
        Regex::Searcher searcher(marks_[kind].regex);
        std::size_t at = 0;
        while (const Regex::Match mark = searcher.next(text, at)) {
            encode_between_marks(text.substr(at, mark.begin - at), kind + 1, steps, ids);
            ids.push_back(marks_[kind].ids.at(text.substr(mark.begin, mark.end - mark.begin)));
            at = mark.end;
        }
        encode_between_marks(text.substr(at), kind + 1, steps, ids);
    }

    void encode_words(std::string_view text, std::size_t step, Searchers& steps,
                      std::vector<std::int32_t>& ids) const {
        if (text.empty()) return;
        if (step == steps.size()) return encode_word(text, ids);
        const bool keep_gaps = definition_.steps[step].keep_gaps;
        std::size_t done = 0, from = 0;
        while (const Regex::Match word = steps[step].next(text, from)) {
            if (keep_gaps) {
                encode_words(text.substr(done, word.begin - done), step + 1, steps, ids);
            }
            encode_words(text.substr(word.begin, word.end - word.begin), step + 1, steps, ids);
            done = from = word.end;
            if (word.begin == word.end) {  // of no length: look on behind the next character
                if (from == text.size()) break;
                from += utf8_character(text.substr(from));
            }
        }
        if (keep_gaps) encode_words(text.substr(done), step + 1, steps, ids);
    }

    void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
        if (definition_.ignore_merges) {
            const auto found = whole_words_.find(word);
            if (found != whole_words_.end()) return ids.push_back(found->second);
        }
        std::vector<std::int32_t> symbols;
        symbols.reserve(word.size());
        for (const char c : word) {
            const std::int32_t id = byte_ids_[static_cast<unsigned char>(c)];
            if (id >= 0) {
                symbols.push_back(id);
            } else {
                tell_dropped(static_cast<unsigned char>(c));
            }
        }
        merges_.apply(symbols, ids);
    }

    void tell_dropped(unsigned char byte) const {
        if (dropped_.exchange(true)) return;
        log(LogLevel::kWarning,
            fmt::format("tokenizer: the vocabulary has no token for byte 0x{:02X}; it is dropped, "
                        "as by Hugging Face's tokenizers (told once)",
                        byte));
    }

    std::string json_, config_;
    BpeDefinition definition_;
    std::uint64_t fingerprint_ = 0;
    std::vector<std::string> bytes_;  // what each id stands for
    std::array<std::int32_t, 256> byte_ids_{};
    BpeMerges merges_;
    std::vector<bool> is_added_;
    std::unordered_map<std::string_view, std::int32_t> whole_words_;
    std::vector<Marks> marks_;
    std::vector<Regex> steps_;
    bool cuts_known_ = false, line_in_mark_ = false, blank_in_mark_ = false;
    mutable std::atomic<bool> dropped_ = false;
};

}  // namespace

TokenizerPtr parse_bpe(std::string_view tokenizer, std::string_view config,
                       const std::string& name) {
    return std::make_shared<BpeTokenizer>(tokenizer, config, name);
}

}  // namespace subbyte::data
