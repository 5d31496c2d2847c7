// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte generate MODEL_DIR --prompt TEXT
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "subbyte/cli/output.h"
#include "subbyte/cli/verbs.h"
#include "subbyte/train/generate.h"
#include "subbyte/train/text_evaluation.h"

namespace subbyte::cli {
namespace {

struct GenerateArguments {
    std::string model, prompt, recipe = "fp32";
    train::SamplingOptions sampling;
    bool json = false;
};

void run(const GenerateArguments& arguments) {
    train::EvaluationModel model =
        train::load_for_evaluation(arguments.model, arguments.recipe, "");
    const std::string text = train::continue_text(model, arguments.prompt, arguments.sampling);
    if (arguments.json) return print_json({{"prompt", arguments.prompt}, {"text", text}});
    print(arguments.prompt + text + "\n");
}

}  // namespace

void add_generate(CLI::App& program) {
    auto a = std::make_shared<GenerateArguments>();
    CLI::App* verb = program.add_subcommand("generate", "Continue a text");
    verb->add_option("model", a->model, "Checkpoint of a run (model and tokenizer)")
        ->required()
        ->type_name("MODEL_DIR");
    verb->add_option("--prompt", a->prompt, "Text to continue")->required();
    verb->add_option("--tokens", a->sampling.tokens, "New tokens")->capture_default_str();
    verb->add_option("--temperature", a->sampling.temperature, "0: always the most likely token")
        ->capture_default_str();
    verb->add_option("--top-k", a->sampling.top_k,
                     "Draw from the k most likely tokens; 0: from all")
        ->capture_default_str();
    verb->add_option("--seed", a->sampling.seed, "Equal seeds give equal text")
        ->capture_default_str();
    verb->add_option("--recipe", a->recipe, "Precision of the linear layers")
        ->capture_default_str();
    verb->add_flag("--json", a->json, "One JSON object");
    verb->callback([a] { run(*a); });
}

}  // namespace subbyte::cli
