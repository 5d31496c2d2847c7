// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/generate.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "subbyte/core/error.h"
#include "subbyte/nn/init.h"

namespace subbyte::train {
namespace {

models::Llama small_model() {
    models::LlamaConfig shape;
    shape.vocab_size = 16;
    shape.hidden_size = 8;
    shape.intermediate_size = 8;
    shape.layers = 1;
    shape.heads = shape.kv_heads = 2;
    shape.max_position = 8;
    models::Llama model(shape);
    nn::initialize(*model, 1);
    return model;
}

TEST(Generate, LogitsThatAreNoNumbersAreAnErrorAndNoText) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        models::Llama model = small_model();
        {
            at::NoGradGuard no_grad;
            model->named_parameters()["lm_head.weight"].select(0, 5).fill_(bad);
        }
        try {
            generate(model, {1, 2}, {.tokens = 3});
            ADD_FAILURE() << "no error";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kData);
            EXPECT_NE(std::string(error.what()).find("no numbers (new token 0)"), std::string::npos)
                << error.what();
        }
        // Ids outside of the tokenizer are never drawn, so theirs do not matter.
        EXPECT_EQ(generate(model, {1, 2}, {.tokens = 3, .vocabulary = 5}).size(), 3u);
    }
}

TEST(Generate, TheSeedDecidesAndNothingElse) {
    models::Llama model = small_model();
    const SamplingOptions options{.tokens = 20, .temperature = 5, .top_k = 0, .seed = 4};
    const auto text = generate(model, {3}, options);
    EXPECT_EQ(text.size(), 20u);
    EXPECT_EQ(text, generate(model, {3}, options));
    SamplingOptions other = options;
    other.seed = 5;
    EXPECT_NE(text, generate(model, {3}, other));
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](auto id) { return id >= 0 && id < 16; }));
}

}  // namespace
}  // namespace subbyte::train
