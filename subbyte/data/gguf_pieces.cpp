// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/gguf_pieces.h"

#include <fmt/format.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <string_view>

#include "subbyte/core/error.h"

namespace subbyte::data {
namespace {

// One message in the wire format of Protocol Buffers: fields as (number << 3 | kind), then a varint
// (kind 0), four bytes (kind 5), or a length and as many bytes (kind 2).
class Message {
public:
    void integer(unsigned field, std::uint64_t value) {
        varint(field << 3);
        varint(value);
    }
    void real(unsigned field, float value) {
        varint(field << 3 | 5);
        const auto bits = std::bit_cast<std::uint32_t>(value);
        for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(bits >> shift);
    }
    void text(unsigned field, std::string_view value) {
        varint(field << 3 | 2);
        varint(value.size());
        bytes_ += value;
    }
    const std::string& bytes() const { return bytes_; }

private:
    void varint(std::uint64_t value) {
        for (; value > 127; value >>= 7) bytes_ += static_cast<char>(value | 128);
        bytes_ += static_cast<char>(value);
    }

    std::string bytes_;
};

[[noreturn]] void refuse_pieces(const std::string& message) {
    throw Error(ErrorCode::kData, message, "the file is damaged, or its maker left the rules");
}

void check_pieces(const GgufPieces& p, const std::string& name) {
    if (p.scores.size() != p.tokens.size() || p.types.size() != p.tokens.size()) {
        refuse_pieces(fmt::format("{}: {} tokens have {} scores and {} types", name,
                                  p.tokens.size(), p.scores.size(), p.types.size()));
    }
    for (std::size_t id = 0; id < p.tokens.size(); ++id) {
        if (p.types[id] >= 1 && p.types[id] <= 6) continue;
        refuse_pieces(fmt::format("{}: token {} is of type {}", name, id, p.types[id]));
    }
    for (const std::int64_t mark : {p.bos, p.eos, p.unknown, p.padding}) {
        if (mark < static_cast<std::int64_t>(p.tokens.size())) continue;
        refuse_pieces(fmt::format("{}: mark {} of {} tokens", name, mark, p.tokens.size()));
    }
}

}  // namespace

std::pair<std::string, std::string> make_sentencepiece_model(const GgufPieces& p,
                                                             const std::string& name) {
    check_pieces(p, name);
    Message model;
    for (std::size_t id = 0; id < p.tokens.size(); ++id) {
        Message piece;
        piece.text(1, p.tokens[id]);
        piece.real(2, static_cast<float>(p.scores[id]));
        piece.integer(3, static_cast<std::uint64_t>(p.types[id]));
        model.text(1, piece.bytes());
    }
    Message trainer;
    trainer.integer(3, 2);  // model_type: BPE
    trainer.integer(4, p.tokens.size());
    trainer.integer(35, 1);  // byte_fallback
    const auto mark = [&](unsigned id_field, unsigned piece_field, std::int64_t id) {
        // SentencePiece writes negative numbers as 64 bit; -1: there is none.
        trainer.integer(id_field, static_cast<std::uint64_t>(id < 0 ? -1 : id));
        if (id >= 0) trainer.text(piece_field, p.tokens[static_cast<std::size_t>(id)]);
    };
    mark(40, 45, p.unknown);
    mark(41, 46, p.bos);
    mark(42, 47, p.eos);
    mark(43, 48, p.padding);
    model.text(2, trainer.bytes());
    Message normalizer;
    normalizer.text(1, "identity");
    normalizer.integer(3, p.add_space_prefix);
    normalizer.integer(4, p.remove_extra_whitespaces);
    normalizer.integer(5, 1);  // blanks become U+2581
    model.text(3, normalizer.bytes());

    const auto token = [&](std::int64_t id) {
        return id < 0 ? nlohmann::json(nullptr)
                      : nlohmann::json(p.tokens[static_cast<std::size_t>(id)]);
    };
    nlohmann::json config{
        {"tokenizer_class", "LlamaTokenizer"}, {"bos_token", token(p.bos)},
        {"eos_token", token(p.eos)},           {"unk_token", token(p.unknown)},
        {"pad_token", token(p.padding)},       {"add_bos_token", p.add_bos},
        {"add_eos_token", p.add_eos},          {"clean_up_tokenization_spaces", false}};
    if (!p.chat_template.empty()) config["chat_template"] = p.chat_template;
    return {model.bytes(),
            config.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

}  // namespace subbyte::data
