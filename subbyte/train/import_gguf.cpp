// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/import_gguf.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "subbyte/core/error.h"
#include "subbyte/core/temporary_folder.h"
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

data::GgufTokens read_tokens(const io::GgufMetadata& keys, const io::HfLlamaConfig& config) {
    const std::string model = keys.text("tokenizer.ggml.model");
    if (model != "gpt2") {
        keys.fail("tokenizer.ggml.model",
                  fmt::format("is '{}', only byte-level BPE ('gpt2') can be read", model),
                  "take the safetensors files of this model, with its tokenizer.model");
    }
    data::GgufTokens tokens;
    tokens.pre = keys.text("tokenizer.ggml.pre");
    tokens.tokens = keys.texts("tokenizer.ggml.tokens");
    if (keys.contains("tokenizer.ggml.token_type")) {
        tokens.types = keys.integers("tokenizer.ggml.token_type");
    }
    tokens.merges = keys.texts("tokenizer.ggml.merges");
    tokens.bos = config.bos_token_id.value_or(-1);
    tokens.eos = config.eos_token_id.empty() ? -1 : config.eos_token_id.front();
    tokens.add_bos = keys.find_boolean("tokenizer.ggml.add_bos_token").value_or(false);
    tokens.chat_template = keys.find_text("tokenizer.chat_template").value_or("");
    if (static_cast<std::int64_t>(tokens.tokens.size()) > config.vocab_size) {
        keys.fail("tokenizer.ggml.tokens", fmt::format("has {} entries, the embedding {} rows",
                                                       tokens.tokens.size(), config.vocab_size));
    }
    return tokens;
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
    const data::GgufTokens tokens = read_tokens(file.metadata(), result.config);
    const auto [tokenizer, tokenizer_config] = data::make_tokenizer_json(tokens, path);
    // What cannot be read back is not written.
    result.tokens = data::parse_bpe(tokenizer, tokenizer_config, path)->vocab_size();
    result.pre_tokenizer = tokens.pre;
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
    write_text(made.path() / "tokenizer.json", tokenizer);
    write_text(made.path() / "tokenizer_config.json", tokenizer_config);
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
