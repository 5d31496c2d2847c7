// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// A whole LLaMA against Hugging Face's: logits, loss and every gradient, read from a model folder.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "subbyte/io/safetensors.h"
#include "subbyte/train/model_folder.h"
#include "subbyte/train/token_evaluation.h"
#include "tests/temp_folder.h"

namespace subbyte::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class GoldenLlama : public ::testing::Test {
protected:
    GoldenLlama() {
        const fs::path data = SUBBYTE_GOLDEN_DIR;
        std::ifstream in(data / "llama_tiny.json");
        golden = json::parse(in);
        std::ofstream(folder / "config.json") << golden["config"];
        fs::copy_file(data / "llama_tiny_weights.safetensors", folder / "model.safetensors");
    }

    TokenFile tokens(const json& labels) const {
        std::ofstream(folder / "tokens.json")
            << json{{"input_ids", golden["input_ids"]}, {"labels", labels}};
        return read_token_file((folder / "tokens.json").string());
    }

    subbyte::TempFolder folder;
    json golden;
};

std::map<std::string, at::Tensor> by_name(const optim::NamedTensors& tensors) {
    return {tensors.begin(), tensors.end()};
}

double norm_of(const at::Tensor& t) { return t.to(at::kDouble).norm().item<double>(); }

TEST_F(GoldenLlama, HasTheLogitsLossAndGradientsOfTheReference) {
    models::Llama model = load_model(folder.path().string());
    const TokenEvaluation result = evaluate_tokens(model, tokens(golden["labels"]), true);
    const auto tensors = by_name(result.tensors);
    EXPECT_EQ(result.targets, 30);
    const double loss = golden["loss_float64"].get<double>();
    EXPECT_NEAR(result.loss, loss, 1e-6 * loss);

    const at::Tensor logits = tensors.at("logits").contiguous();
    const std::string hex = golden["logits_f32_hex"].get<std::string>();
    ASSERT_EQ(hex.size(), static_cast<std::size_t>(8 * logits.numel()));
    for (std::int64_t i = 0; i < logits.numel(); ++i) {
        const auto bits = static_cast<std::uint32_t>(
            std::stoul(hex.substr(static_cast<std::size_t>(8 * i), 8), nullptr, 16));
        ASSERT_NEAR(logits.const_data_ptr<float>()[i], std::bit_cast<float>(bits), 1e-5) << i;
    }

    const auto expected =
        io::SafetensorsFile::open(fs::path(SUBBYTE_GOLDEN_DIR) / "llama_tiny_grads.safetensors")
            .load_all();
    std::size_t compared = 0;
    for (const auto& [name, grad] : expected) {
        ASSERT_TRUE(tensors.contains("grad." + name)) << name;
        EXPECT_LE(norm_of(tensors.at("grad." + name).sub(grad)), 1e-4 * norm_of(grad)) << name;
        ++compared;
    }
    EXPECT_EQ(compared, golden["parameters"].size());
    EXPECT_EQ(compared + 2, tensors.size());
}

// Ignored labels: the loss is the mean over the rest, computed here from the reference's logits.
TEST_F(GoldenLlama, LeavesIgnoredLabelsOut) {
    json labels = golden["labels"];
    for (const int t : {0, 3, 4, 15}) labels[0][t] = -100;
    labels[1][7] = -100;
    models::Llama model = load_model(folder.path().string());
    const TokenEvaluation result = evaluate_tokens(model, tokens(labels), true);
    const at::Tensor logits = by_name(result.tensors).at("logits").to(at::kDouble);
    double sum = 0;
    std::int64_t count = 0;
    for (int b = 0; b < 2; ++b) {
        for (int t = 0; t < 15; ++t) {
            const auto label = labels[b][t + 1].get<std::int64_t>();
            if (label == -100) continue;
            const at::Tensor row = logits[b][t];
            sum += row.logsumexp(0).item<double>() - row[label].item<double>();
            ++count;
        }
    }
    EXPECT_EQ(result.targets, count);
    EXPECT_EQ(count, 26);  // label 0 of a row has no position before it
    EXPECT_NEAR(result.loss, sum / static_cast<double>(count), 1e-6 * result.loss);
}

// With the same numbers in head and embedding, the gradient of the tied tensor is the sum of the
// two.
TEST_F(GoldenLlama, SumsTheGradientsOfTiedEmbeddings) {
    auto weights = io::SafetensorsFile::open(folder / "model.safetensors").load_all();
    optim::NamedTensors untied(weights.begin(), weights.end()), tied;
    at::Tensor table;
    for (auto& [name, tensor] : untied) {
        if (name == "model.embed_tokens.weight") table = tensor;
    }
    for (auto& [name, tensor] : untied) {
        if (name == "lm_head.weight") tensor = table.clone();
        if (name != "lm_head.weight") tied.emplace_back(name, tensor);
    }
    const auto gradients = [&](const char* name, const optim::NamedTensors& tensors, bool tie) {
        const fs::path own = folder / name;
        fs::create_directory(own);
        json config = golden["config"];
        config["tie_word_embeddings"] = tie;
        std::ofstream(own / "config.json") << config;
        io::save_safetensors((own / "model.safetensors").string(), tensors);
        models::Llama model = load_model(own.string());
        return by_name(evaluate_tokens(model, tokens(golden["labels"]), true).tensors);
    };
    const auto apart = gradients("untied", untied, false), together = gradients("tied", tied, true);
    EXPECT_FALSE(together.contains("grad.lm_head.weight"));
    const at::Tensor sum =
        apart.at("grad.lm_head.weight").add(apart.at("grad.model.embed_tokens.weight"));
    EXPECT_LE(norm_of(together.at("grad.model.embed_tokens.weight").sub(sum)), 1e-6 * norm_of(sum));
    EXPECT_TRUE(together.at("logits").equal(apart.at("logits")));
}

}  // namespace
}  // namespace subbyte::train
