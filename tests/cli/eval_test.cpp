// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// `subbyte eval` and `subbyte generate` on a small model folder.
#include "tests/cli/program.h"

namespace subbyte::testing {
namespace {

using nlohmann::json;

class Eval : public Program {
protected:
    // A LLaMA with a vocabulary of 96 and 32 positions.
    Eval() {
        const std::filesystem::path data = SUBBYTE_GOLDEN_DIR;
        config_ = json::parse(read_file(data / "llama_tiny.json"))["config"];
        std::filesystem::create_directory(path("m"));
        write("m/config.json", config_.dump());
        std::filesystem::copy_file(data / "llama_tiny_weights.safetensors",
                                   path("m/model.safetensors"));
    }
    Call eval_tokens(const json& ids, const json& labels, const std::string& options = "") const {
        write("t.json", json{{"input_ids", ids}, {"labels", labels}}.dump());
        return run("eval m --tokens t.json " + options);
    }

    json config_;
};

TEST_F(Eval, TokensOutsideOfTheVocabularyAreADataError) {
    const int vocabulary = config_["vocab_size"];
    EXPECT_EQ(eval_tokens({{1, 2, vocabulary - 1}}, {{1, -100, 2}}).exit_code, 0);
    expect_error(eval_tokens({{1, 2, 3}, {1, vocabulary, 3}}, {{1, 2, 3}, {1, 2, 3}}), 3,
                 "t.json: input_ids: row 1 holds " + std::to_string(vocabulary) + " at position 1");
    expect_error(eval_tokens({{1, -100, 3}}, {{1, 2, 3}}), 3, "input_ids: row 0 holds -100");
    expect_error(eval_tokens({{1, 2, 3}}, {{1, 2, vocabulary}}), 3, "labels: row 0");
    expect_error(eval_tokens({{1, 2, 3}}, {{1, 2, -1}}), 3, "labels: row 0 holds -1");
    expect_error(eval_tokens({{1, 2, 3}}, {{-100, -100, -100}}), 3, "no target");
    const std::vector<int> longer(config_["max_position_embeddings"].get<std::size_t>() + 1, 1);
    expect_error(eval_tokens({longer}, {longer}), 3, "the model ends at position");
}

TEST_F(Eval, OptionsThatWouldChangeNothingAreRefused) {
    for (const std::string option : {"--seq-len 8", "--batch-size 2", "--batches 1"}) {
        expect_error(eval_tokens({{1, 2}}, {{1, 2}}, option), 2, option.substr(0, 7));
    }
    expect_error(run("eval m --data x.txt --dump d.safetensors"), 2, "--dump");
    expect_error(eval_tokens({{1, 2}}, {{1, 2}}, "--grads"), 2, "--dump");
    expect_error(eval_tokens({{1, 2}}, {{1, 2}}, "--data x.txt"), 2, "--data");
    expect_error(eval_tokens({{1, 2}}, {{1, 2}}, "--plan p.json --recipe fp8"), 2, "--plan");
    expect_error(run("eval m"), 2, "either --tokens or --data");
}

TEST_F(Eval, APlanIsNamedInsteadOfARecipe) {
    write("p.json", R"({"version": 1, "method": "given", "fallback": "fp4", "layers": {}})");
    const json by_plan = eval_tokens({{1, 2, 3}}, {{1, 2, 3}}, "--plan p.json --json").json();
    const json by_recipe = eval_tokens({{1, 2, 3}}, {{1, 2, 3}}, "--recipe fp4 --json").json();
    EXPECT_EQ(by_plan["plan"], "p.json");
    EXPECT_FALSE(by_plan.contains("recipe"));
    EXPECT_EQ(by_plan["loss"], by_recipe["loss"]);
    EXPECT_EQ(by_recipe["recipe"], "fp4");
}

}  // namespace
}  // namespace subbyte::testing
