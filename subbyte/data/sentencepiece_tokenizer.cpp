// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <array>
#include <exception>

#include "subbyte/core/checksum.h"
#include "subbyte/core/error.h"
#include "subbyte/core/log.h"
#include "subbyte/data/tokenizer.h"
#include "subbyte/data/utf8.h"

// Exported by the library, declared in a header it does not install.
namespace sentencepiece::logging {
void SetMinLogLevel(int level);
}

namespace subbyte::data {
namespace {

namespace sp = sentencepiece;

constexpr std::int64_t kLargestModel = 256 << 20;  // bytes of a .model file
// SentencePiece writes U+2581 for a blank, so the character itself has to go through as bytes.
constexpr std::string_view kBlankMark = "\xE2\x96\x81";

// The library reports by its status; whatever it would print is dropped.
void silence() { sp::logging::SetMinLogLevel(4); }

// What a status says, without the place in the library's sources in front of it.
std::string reason(const sp::util::Status& status) {
    const std::string_view message = status.message();
    const std::size_t place = message.find("] ");
    return std::string(place + 2 < message.size() ? message.substr(place + 2) : message);
}

void check(const sp::util::Status& status, const char* what) {
    if (!status.ok()) {
        throw Error(ErrorCode::kInternal,
                    fmt::format("SentencePiece: {}: {}", what, reason(status)));
    }
}

class SentencePieceTokenizer : public Tokenizer {
public:
    SentencePieceTokenizer(std::string_view model, const std::string& name)
        : model_(model), fingerprint_(checksum_of(model)) {
        silence();
        const auto status = processor_.LoadFromSerializedProto(model);
        if (!status.ok()) {
            throw Error(ErrorCode::kData,
                        fmt::format("{}: is no SentencePiece model: {}", name, reason(status)),
                        "give a .model file as spm_train writes it");
        }
        for (int byte = 0; byte < 256; ++byte) {
            const int id = processor_.PieceToId(fmt::format("<0x{:02X}>", byte));
            if (!processor_.IsByte(id)) {
                throw Error(ErrorCode::kData,
                            fmt::format("{}: has no piece for byte 0x{:02X}, so line ends and rare "
                                        "characters would be lost",
                                        name, byte),
                            "train it with --byte_fallback=true");
            }
            byte_ids_[static_cast<std::size_t>(byte)] = id;
        }
        std::vector<int> ids;
        check(processor_.Encode("\n", &ids), "encode");
        if (const auto end = std::find(ids.begin(), ids.end(), id_of('\n')); end != ids.end()) {
            front_.assign(ids.begin(), end);
        }
        has_line_end_piece_ = processor_.PieceToId("\n") != processor_.unk_id();
    }

    std::string name() const override { return "sentencepiece"; }
    std::int64_t vocab_size() const override { return processor_.GetPieceSize(); }
    std::int32_t bos_id() const override { return processor_.bos_id(); }
    std::int32_t eos_id() const override { return processor_.eos_id(); }
    std::uint64_t fingerprint() const override { return fingerprint_; }
    std::vector<TokenizerFile> files() const override { return {{"tokenizer.model", model_}}; }

protected:
    // Line by line: pieces never reach over a line end, and SentencePiece's memory grows with the
    // length of what it is given.
    std::vector<std::int32_t> encode_valid(std::string_view text, bool first) const override {
        std::vector<std::int32_t> ids;
        while (!text.empty()) {
            const std::string_view line =
                has_line_end_piece_ ? text : text.substr(0, text.find('\n'));
            const std::size_t length = std::min(line.find(kBlankMark), line.size());
            if (length == 0 && first) ids = front_;
            if (length > 0) {
                append_line(text.substr(0, length), first, ids);
                text.remove_prefix(length);
            } else {
                const std::size_t bytes = text[0] == '\n' ? 1 : kBlankMark.size();
                for (const char byte : text.substr(0, bytes)) ids.push_back(id_of(byte));
                text.remove_prefix(bytes);
            }
            first = false;
        }
        return ids;
    }

    std::string decode_valid(std::span<const std::int32_t> ids) const override {
        std::string text;
        check(processor_.Decode(std::vector<int>(ids.begin(), ids.end()), &text), "decode");
        return text;
    }

private:
    std::int32_t id_of(char byte) const { return byte_ids_[static_cast<unsigned char>(byte)]; }

    void append_line(std::string_view line, bool first, std::vector<std::int32_t>& ids) const {
        std::vector<int> got;
        if (first || front_.empty()) {
            check(processor_.Encode(line, &got), "encode");
            ids.insert(ids.end(), got.begin(), got.end());
            return;
        }
        // What such a model adds goes in front of a line end, and is cut off with it.
        check(processor_.Encode(std::string(1, '\n').append(line), &got), "encode");
        const auto line_end = std::find(got.begin(), got.end(), id_of('\n'));
        ids.insert(ids.end(), line_end == got.end() ? got.begin() : line_end + 1, got.end());
    }

    std::string model_;
    std::uint64_t fingerprint_;
    sp::SentencePieceProcessor processor_;
    std::array<std::int32_t, 256> byte_ids_{};
    std::vector<std::int32_t> front_;  // what the model puts in front of a text
    bool has_line_end_piece_ = false;
};

// The lines of the texts, every `stride`-th, as SentencePiece asks for them.
class Lines : public sp::SentenceIterator {
public:
    Lines(const std::vector<TextRange>& texts, std::int64_t stride)
        : texts_(texts), stride_(stride) {
        Next();
    }

    bool done() const override { return done_; }
    const std::string& value() const override { return line_; }
    sp::util::Status status() const override { return {}; }

    void Next() override {
        // No exception may pass through the library's code: it is thrown again afterwards.
        try {
            do {
                if (!read_line()) done_ = true;
            } while (!done_ && count_++ % stride_ != 0);
        } catch (...) {
            error_ = std::current_exception();
            done_ = true;
        }
    }

    void rethrow() const {
        if (error_) std::rethrow_exception(error_);
    }

private:
    // Long lines are handed out in parts: positions within a word are 16-bit numbers there.
    static constexpr std::size_t kLongest = 8192;

    bool read_line() {
        while (block_.size() <= at_) {
            at_ = 0;
            if (reader_ && reader_->next(block_)) continue;
            block_.clear();
            if (next_text_ == texts_.size()) return false;
            reader_ = std::make_unique<TextReader>(texts_[next_text_++]);
        }
        const std::string_view rest = std::string_view(block_).substr(at_);
        std::size_t length = std::min(rest.find('\n'), rest.size());
        std::size_t skip = length < rest.size() ? 1 : 0;  // the line end
        if (length > kLongest) {
            const std::size_t blank = rest.rfind(' ', kLongest);
            length = blank != rest.npos && blank > 0 ? blank : utf8_boundary(rest, kLongest);
            skip = 0;
        }
        line_ = rest.substr(0, length);
        at_ += length + skip;
        return true;
    }

    const std::vector<TextRange>& texts_;
    std::int64_t stride_, count_ = 0;
    std::size_t next_text_ = 0, at_ = 0;
    std::unique_ptr<TextReader> reader_;
    std::string block_, line_;
    bool done_ = false;
    std::exception_ptr error_;
};

}  // namespace

TokenizerPtr parse_sentencepiece(std::string_view model, const std::string& name) {
    return std::make_shared<SentencePieceTokenizer>(model, name);
}

TokenizerPtr load_sentencepiece(const std::filesystem::path& path) {
    return parse_sentencepiece(read_text(path, kLargestModel), path.string());
}

TokenizerPtr train_sentencepiece(const std::vector<TextRange>& texts,
                                 const TokenizerTraining& options) {
    std::int64_t bytes = 0;
    for (const TextRange& text : texts) {
        bytes +=
            std::min(text.end, static_cast<std::int64_t>(InputFile(text.path).size())) - text.begin;
    }
    Lines lines(texts,
                std::max<std::int64_t>(1, (bytes + options.max_bytes - 1) / options.max_bytes));
    std::string model;
    silence();
    const auto status = sp::SentencePieceTrainer::Train(
        {{"model_type", "bpe"},
         {"vocab_size", std::to_string(options.vocab_size)},
         {"character_coverage", std::to_string(options.character_coverage)},
         {"byte_fallback", "true"},
         {"split_digits", "true"},
         // Lossless: nothing is normalised, added or removed.
         {"normalization_rule_name", "identity"},
         {"add_dummy_prefix", "false"},
         {"remove_extra_whitespaces", "false"},
         {"allow_whitespace_only_pieces", "true"},
         {"max_sentence_length", "1000000"},
         {"hard_vocab_limit", "false"},
         {"num_threads", "1"},
         {"minloglevel", "4"}},
        &lines, &model);
    lines.rethrow();
    if (!status.ok()) {
        throw Error(
            ErrorCode::kUsage,
            fmt::format("a tokenizer of {} pieces cannot be trained on {} bytes of text: {}",
                        options.vocab_size, bytes, reason(status)),
            "a vocabulary holds 3 marks, 256 bytes and every common character of the text: "
            "raise data.vocab_size, or set data.tokenizer to \"bytes\"");
    }
    TokenizerPtr tokenizer = parse_sentencepiece(model, "the trained tokenizer");
    if (tokenizer->vocab_size() < options.vocab_size) {
        log(LogLevel::kInfo,
            fmt::format("tokenizer: the text yields {} pieces, fewer than the {} asked for",
                        tokenizer->vocab_size(), options.vocab_size));
    }
    return tokenizer;
}

}  // namespace subbyte::data
