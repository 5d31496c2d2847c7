// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/import_gguf.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>
#include <utility>

#include "subbyte/core/error.h"
#include "subbyte/core/temporary_folder.h"
#include "subbyte/data/gguf_pieces.h"
#include "subbyte/data/gguf_tokens.h"
#include "subbyte/data/tokenizer.h"
#include "subbyte/io/gguf_llama.h"
#include "subbyte/io/safetensors.h"

namespace subbyte::train {
namespace {

namespace fs = std::filesystem;

void check_free(const fs::path& out) {
    std::error_code ignored;  // what cannot be looked at cannot be written either
    if (!fs::exists(out, ignored) || (fs::is_directory(out, ignored) && fs::is_empty(out, ignored)))
        return;
    throw Error(ErrorCode::kUsage, fmt::format("{} exists already", out.string()),
                "name another folder with --out, or remove this one");
}

// The tokenizer of a model folder: its files and what they hold.
struct FolderTokenizer {
    std::string kind, pre, file, content, config;
    std::int64_t tokens = 0;
};

void check_size(const io::GgufMetadata& keys, std::size_t tokens, const io::HfLlamaConfig& config) {
    if (static_cast<std::int64_t>(tokens) <= config.vocab_size) return;
    keys.fail("tokenizer.ggml.tokens",
              fmt::format("has {} entries, the embedding {} rows", tokens, config.vocab_size));
}

std::int64_t first_eos(const io::HfLlamaConfig& config) {
    return config.eos_token_id.empty() ? -1 : config.eos_token_id.front();
}

FolderTokenizer read_pieces(const io::GgufMetadata& keys, const io::HfLlamaConfig& config,
                            const std::string& path) {
    const auto flag = [&](const char* key, bool otherwise) {
        return keys.find_boolean(key).value_or(otherwise);
    };
    data::GgufPieces pieces;
    pieces.tokens = keys.texts("tokenizer.ggml.tokens");
    pieces.scores = keys.numbers("tokenizer.ggml.scores");
    pieces.types = keys.integers("tokenizer.ggml.token_type");
    pieces.bos = config.bos_token_id.value_or(-1);
    pieces.eos = first_eos(config);
    pieces.unknown = keys.find_integer("tokenizer.ggml.unknown_token_id").value_or(0);
    pieces.padding = keys.find_integer("tokenizer.ggml.padding_token_id").value_or(-1);
    pieces.add_bos = flag("tokenizer.ggml.add_bos_token", pieces.add_bos);
    pieces.add_eos = flag("tokenizer.ggml.add_eos_token", pieces.add_eos);
    pieces.add_space_prefix = flag("tokenizer.ggml.add_space_prefix", pieces.add_space_prefix);
    pieces.remove_extra_whitespaces =
        flag("tokenizer.ggml.remove_extra_whitespaces", pieces.remove_extra_whitespaces);
    pieces.chat_template = keys.find_text("tokenizer.chat_template").value_or("");
    check_size(keys, pieces.tokens.size(), config);
    FolderTokenizer made;
    made.kind = "SentencePiece";
    made.file = "tokenizer.model";
    std::tie(made.content, made.config) = data::make_sentencepiece_model(pieces, path);
    made.tokens = data::parse_sentencepiece(made.content, path)->vocab_size();
    return made;
}

FolderTokenizer read_tokens(const io::GgufMetadata& keys, const io::HfLlamaConfig& config,
                            const std::string& path) {
    data::GgufTokens tokens;
    tokens.pre = keys.text("tokenizer.ggml.pre");
    tokens.tokens = keys.texts("tokenizer.ggml.tokens");
    if (keys.contains("tokenizer.ggml.token_type")) {
        tokens.types = keys.integers("tokenizer.ggml.token_type");
    }
    tokens.merges = keys.texts("tokenizer.ggml.merges");
    tokens.bos = config.bos_token_id.value_or(-1);
    tokens.eos = first_eos(config);
    tokens.add_bos = keys.find_boolean("tokenizer.ggml.add_bos_token").value_or(false);
    tokens.chat_template = keys.find_text("tokenizer.chat_template").value_or("");
    check_size(keys, tokens.tokens.size(), config);
    FolderTokenizer made;
    made.kind = "byte-level BPE";
    made.pre = tokens.pre;
    made.file = "tokenizer.json";
    std::tie(made.content, made.config) = data::make_tokenizer_json(tokens, path);
    made.tokens = data::parse_bpe(made.content, made.config, path)->vocab_size();
    return made;
}

// Reads what it made: what cannot be read back is not written.
FolderTokenizer read_tokenizer(const io::GgufMetadata& keys, const io::HfLlamaConfig& config,
                               const std::string& path) {
    const std::string model = keys.text("tokenizer.ggml.model");
    if (model == "gpt2") return read_tokens(keys, config, path);
    if (model == "llama") return read_pieces(keys, config, path);
    keys.fail(
        "tokenizer.ggml.model",
        fmt::format("is '{}'; byte-level BPE ('gpt2') and SentencePiece ('llama') can be read",
                    model),
        "take the safetensors files of this model, with its tokenizer");
}

std::vector<ImportedType> types_of(const io::GgufFile& file) {
    std::map<std::string_view, ImportedType> by_name;
    for (const io::GgufTensor& tensor : file.tensors()) {
        ImportedType& type = by_name[tensor.type->name];
        type.type = tensor.type->name;
        type.bits_per_value = tensor.type->bits_per_value();
        ++type.tensors;
        type.values += tensor.values();
    }
    std::vector<ImportedType> types;
    for (auto& [name, type] : by_name) types.push_back(std::move(type));
    std::stable_sort(types.begin(), types.end(),
                     [](const auto& a, const auto& b) { return a.values > b.values; });
    return types;
}

}  // namespace

GgufImport import_gguf(const std::string& path, const std::string& out) {
    // A slash at the end would make the temporary name one inside of the folder.
    const fs::path folder = fs::absolute(out).lexically_normal();
    const fs::path target = folder.has_filename() ? folder : folder.parent_path();
    check_free(target);
    const io::GgufFile file = io::GgufFile::open(path);
    GgufImport result;
    result.config = io::gguf_llama_config(file);
    const std::vector<io::GgufParameter> parameters =
        io::gguf_llama_parameters(file, result.config);
    const FolderTokenizer tokenizer = read_tokenizer(file.metadata(), result.config, path);
    result.tokens = tokenizer.tokens;
    result.tokenizer = tokenizer.kind;
    result.pre_tokenizer = tokenizer.pre;
    result.tokenizer_file = tokenizer.file;
    result.name = file.metadata().find_text("general.name").value_or("");
    result.types = types_of(file);

    io::NamedTensors tensors;
    for (const io::GgufParameter& parameter : parameters) {
        tensors.emplace_back(parameter.hf_name, io::load_gguf_parameter(file, parameter));
        result.parameters += tensors.back().second.numel();
    }
    const fs::path parent = target.parent_path();
    make_folder(parent);
    TemporaryFolder made(parent /
                         fmt::format(".{}.{}.tmp", target.filename().string(), ::getpid()));
    io::write_hf_llama_config(made.path() / "config.json", result.config, "float32");
    write_text(made.path() / tokenizer.file, tokenizer.content);
    write_text(made.path() / "tokenizer_config.json", tokenizer.config);
    result.bytes =
        io::save_safetensors(made.path() / "model.safetensors", tensors, {{"format", "pt"}}).bytes;
    std::error_code error;
    if (!made.keep_as(target, error)) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: cannot be made: {}", target.string(), error.message()),
                    "name another folder with --out");
    }
    sync_folder(parent);
    return result;
}

}  // namespace subbyte::train
