// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte import IN.gguf --out DIR
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "subbyte/cli/output.h"
#include "subbyte/cli/verbs.h"
#include "subbyte/train/import_gguf.h"

namespace subbyte::cli {
namespace {

struct Arguments {
    std::string in, out;
    bool json = false;
};

nlohmann::json to_json(const train::GgufImport& result, const std::string& out) {
    nlohmann::json types = nlohmann::json::array();
    for (const train::ImportedType& type : result.types) {
        types.push_back({{"type", type.type},
                         {"bits_per_value", type.bits_per_value},
                         {"tensors", type.tensors},
                         {"values", type.values}});
    }
    const io::HfLlamaConfig& c = result.config;
    return {{"out", out},
            {"name", result.name},
            {"parameters", result.parameters},
            {"layers", c.num_hidden_layers},
            {"hidden_size", c.hidden_size},
            {"intermediate_size", c.intermediate_size},
            {"heads", c.num_attention_heads},
            {"kv_heads", c.num_key_value_heads},
            {"vocab_size", c.vocab_size},
            {"max_position", c.max_position_embeddings},
            {"tie_embeddings", c.tie_word_embeddings},
            {"tokens", result.tokens},
            {"tokenizer", result.tokenizer},
            {"pre_tokenizer", result.pre_tokenizer},
            {"types", types},
            {"bytes", result.bytes}};
}

void run(const Arguments& arguments) {
    const train::GgufImport result = train::import_gguf(arguments.in, arguments.out);
    if (arguments.json) return print_json(to_json(result, arguments.out));
    const io::HfLlamaConfig& c = result.config;
    std::vector<std::vector<std::string>> rows{{"stored as", "bits/value", "tensors", "values"}};
    for (const train::ImportedType& type : result.types) {
        rows.push_back({type.type, fmt::format("{:g}", type.bits_per_value),
                        fmt::to_string(type.tensors), fmt::to_string(type.values)});
    }
    print(fmt::format(
        "{}{}LLaMA of {} parameters: {} layers of {} x {}, {} heads, {} key/value heads, "
        "{} positions, {} head\n"
        "tokenizer of {} pieces ({}{}{})\n{}"
        "{}: config.json, model.safetensors ({:.1f} MB, FP32), {}\n",
        result.name, result.name.empty() ? "" : ": ", result.parameters, c.num_hidden_layers,
        c.hidden_size, c.intermediate_size, c.num_attention_heads, c.num_key_value_heads,
        c.max_position_embeddings, c.tie_word_embeddings ? "tied" : "own", result.tokens,
        result.tokenizer, result.pre_tokenizer.empty() ? "" : ", ", result.pre_tokenizer,
        table_text(rows), arguments.out, static_cast<double>(result.bytes) / 1e6,
        result.tokenizer_file));
}

}  // namespace

void add_import(CLI::App& program) {
    CLI::App* verb = program.add_subcommand(
        "import", "Make a model folder of a pretrained LLaMA in a GGUF file");
    auto a = std::make_shared<Arguments>();
    verb->add_option("IN", a->in, "LLaMA with a byte-level BPE or SentencePiece tokenizer (*.gguf)")
        ->required();
    verb->add_option("--out", a->out, "New Hugging Face folder: the weights in FP32, the tokenizer")
        ->required()
        ->type_name("DIR");
    verb->add_flag("--json", a->json, "One JSON object");
    verb->callback([a] { run(*a); });
}

}  // namespace subbyte::cli
