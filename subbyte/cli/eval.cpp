// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte eval MODEL_DIR --tokens FILE.json [--dump OUT.safetensors [--grads]]
// subbyte eval MODEL_DIR --data TEXT
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "subbyte/cli/output.h"
#include "subbyte/cli/verbs.h"
#include "subbyte/core/error.h"
#include "subbyte/io/safetensors.h"
#include "subbyte/train/text_evaluation.h"
#include "subbyte/train/token_evaluation.h"

namespace subbyte::cli {
namespace {

struct EvalArguments {
    std::string model, tokens, data, dump, recipe = "fp32", plan;
    std::int64_t seq_len = 256, batch_size = 8, batches = 0;
    bool gradients = false, json = false;

    const char* precision_kind() const { return plan.empty() ? "recipe" : "plan"; }
    const std::string& precision() const { return plan.empty() ? recipe : plan; }
};

void show(const EvalArguments& arguments, double loss, std::int64_t targets) {
    const double perplexity = std::exp(loss);
    if (arguments.json) {
        return print_json({{"loss", loss},
                           {"perplexity", perplexity},
                           {"targets", targets},
                           {arguments.precision_kind(), arguments.precision()}});
    }
    print(fmt::format("loss {:.6f} | ppl {:.3f} | {} targets | {}\n", loss, perplexity, targets,
                      arguments.precision()));
}

void run(const EvalArguments& arguments) {
    if (arguments.tokens.empty() == arguments.data.empty()) {
        throw Error(ErrorCode::kUsage, "eval needs either --tokens or --data",
                    "--tokens FILE.json for token ids, --data FILE for text");
    }
    train::EvaluationModel model =
        train::load_for_evaluation(arguments.model, arguments.recipe, arguments.plan);
    if (!arguments.data.empty()) {
        const train::AccumulatedLoss loss = train::evaluate_text(
            model, arguments.data, {arguments.seq_len, arguments.batch_size, arguments.batches});
        return show(arguments, loss.mean, loss.targets);
    }
    const train::TokenFile tokens = train::read_token_file(arguments.tokens);
    const train::TokenEvaluation result =
        train::evaluate_tokens(model.model, tokens, arguments.gradients);
    if (!arguments.dump.empty()) io::save_safetensors(arguments.dump, result.tensors);
    if (result.targets > 0) {
        show(arguments, result.loss, result.targets);
    } else if (arguments.json) {
        print_json({{"targets", 0}, {arguments.precision_kind(), arguments.precision()}});
    } else {
        print("no labels: logits only\n");
    }
}

}  // namespace

void add_eval(CLI::App& program) {
    auto a = std::make_shared<EvalArguments>();
    CLI::App* verb =
        program.add_subcommand("eval", "Loss and perplexity of a model; logits and gradients");
    verb->add_option("model", a->model, "Hugging Face LLaMA folder, or a checkpoint of a run")
        ->required()
        ->type_name("MODEL_DIR");
    // Each option that the other form would ignore is refused by it.
    CLI::Option* tokens =
        verb->add_option("--tokens", a->tokens, "JSON with input_ids and labels (-100: ignored)")
            ->type_name("FILE");
    CLI::Option* data =
        verb->add_option("--data", a->data, "UTF-8 text; needs the tokenizer in the model's folder")
            ->type_name("FILE")
            ->excludes(tokens);
    CLI::Option* dump =
        verb->add_option("--dump", a->dump, "Write logits, loss and grad.<parameter> in FP32")
            ->type_name("FILE")
            ->needs(tokens);
    verb->add_flag("--grads", a->gradients, "With --dump: gradients too")->needs(dump);
    CLI::Option* recipe = verb->add_option("--recipe", a->recipe, "Precision of the linear layers")
                              ->capture_default_str();
    verb->add_option("--plan", a->plan, "Plan to put in force instead of one recipe")
        ->type_name("FILE")
        ->excludes(recipe);
    verb->add_option("--seq-len", a->seq_len, "Tokens per window of --data")
        ->capture_default_str()
        ->needs(data);
    verb->add_option("--batch-size", a->batch_size, "Windows of --data per forward pass")
        ->capture_default_str()
        ->needs(data);
    verb->add_option("--batches", a->batches, "At most this many batches of --data; 0: all")
        ->capture_default_str()
        ->needs(data);
    verb->add_flag("--json", a->json, "One JSON object");
    verb->callback([a] { run(*a); });
}

}  // namespace subbyte::cli
