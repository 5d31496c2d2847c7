// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/full.h>

#include "io_test_util.h"
#include "subbyte/io/hf_config.h"
#include "subbyte/io/json_file.h"
#include "subbyte/io/model_folder.h"
#include "tests/refuses.h"

namespace subbyte::io {
namespace {

const std::filesystem::path kGolden = SUBBYTE_GOLDEN_DIR;

nlohmann::json golden_config() {
    return nlohmann::json::parse(read_bytes(kGolden / "llama_tiny.json"))["config"];
}

TEST(HfConfig, ReadsWhatTransformersWrote) {
    const HfLlamaConfig c = parse_hf_llama_config(golden_config(), "config.json");
    EXPECT_EQ(c.vocab_size, 128);
    EXPECT_EQ(c.hidden_size, 64);
    EXPECT_EQ(c.intermediate_size, 112);
    EXPECT_EQ(c.num_hidden_layers, 2);
    EXPECT_EQ(c.num_attention_heads, 4);
    EXPECT_EQ(c.num_key_value_heads, 2);
    EXPECT_EQ(c.head_dim, 16);
    EXPECT_EQ(c.max_position_embeddings, 64);
    EXPECT_EQ(c.rms_norm_eps, 1e-5);
    EXPECT_EQ(c.rope_theta, 10000.0);
    EXPECT_FALSE(c.tie_word_embeddings);
    EXPECT_FALSE(c.bos_token_id.has_value());
}

TEST(HfConfig, AbsentMembersHaveTheDefaultsOfTransformers) {
    nlohmann::json json = golden_config();
    for (const char* key :
         {"num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "rope_theta",
          "hidden_act", "attention_bias", "mlp_bias", "tie_word_embeddings"}) {
        json.erase(key);
    }
    json["head_dim"] = nullptr;
    json["eos_token_id"] = {2, 7};
    json["bos_token_id"] = 1;
    const HfLlamaConfig c = parse_hf_llama_config(json, "config.json");
    EXPECT_EQ(c.num_key_value_heads, 4);
    EXPECT_EQ(c.head_dim, 16);
    EXPECT_EQ(c.max_position_embeddings, 2048);
    EXPECT_EQ(c.rms_norm_eps, 1e-6);
    EXPECT_EQ(c.rope_theta, 10000.0);
    EXPECT_EQ(c.eos_token_id, (std::vector<std::int64_t>{2, 7}));
    EXPECT_EQ(c.bos_token_id, 1);
}

TEST(HfConfig, RopeThetaMayBeNested) {
    nlohmann::json json = golden_config();
    json.erase("rope_theta");
    json["rope_parameters"] = {{"rope_theta", 500000.0}, {"rope_type", "default"}};
    EXPECT_EQ(parse_hf_llama_config(json, "c").rope_theta, 500000.0);
    json["rope_theta"] = 10000.0;
    const std::string message =
        error_of(ErrorCode::kData, [&] { parse_hf_llama_config(json, "c"); });
    EXPECT_NE(message.find("10000"), std::string::npos) << message;
    EXPECT_NE(message.find("500000"), std::string::npos) << message;
}

TEST(HfConfig, SurvivesWritingAndReading) {
    const TempFolder folder;
    HfLlamaConfig c = parse_hf_llama_config(golden_config(), "c");
    c.rope_theta = 123456.5;
    c.head_dim = 24;
    c.tie_word_embeddings = true;
    for (const auto& eos : std::vector<std::vector<std::int64_t>>{{}, {2}, {2, 3}}) {
        c.eos_token_id = eos;
        write_hf_llama_config(folder / "config.json", c, "float32");
        EXPECT_EQ(read_hf_llama_config(folder / "config.json"), c);
    }
    EXPECT_EQ(read_json(folder / "config.json")["architectures"][0], "LlamaForCausalLM");
}

TEST(HfConfig, RefusesWhatOurModelWouldComputeDifferently) {
    const auto refused = [&](const std::string& key, const nlohmann::json& value) {
        nlohmann::json json = golden_config();
        json[key] = value;
        const std::string message =
            error_of(ErrorCode::kData, [&] { parse_hf_llama_config(json, "m/config.json"); });
        EXPECT_EQ(message.find("m/config.json: "), 0u) << message;
        EXPECT_NE(message.find(key), std::string::npos) << message;
        return message;
    };
    refused("attention_bias", true);
    refused("mlp_bias", true);
    refused("hidden_act", "gelu");
    refused("model_type", "mistral");
    refused("model_type", nullptr);
    refused("attention_dropout", 0.1);
    refused("quantization_config", {{"quant_method", "fp8"}});
    refused("rope_scaling", {{"type", "linear"}, {"factor", 2.0}});
    refused("rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}});
    refused("rope_parameters", {{"rope_type", "yarn"}, {"factor", 8.0}});
    refused("partial_rotary_factor", 0.5);
    refused("hidden_size", 0);
    refused("hidden_size", -64);
    refused("hidden_size", 64.5);
    refused("hidden_size", "64");
    refused("hidden_size", nullptr);
    refused("hidden_size", 66);  // no multiple of 4 heads
    refused("hidden_size", 9223372036854775807LL);
    refused("num_key_value_heads", 3);
    refused("head_dim", 15);
    refused("rms_norm_eps", 0.0);
    refused("rms_norm_eps", "1e-5");
    refused("rope_theta", -1.0);
    refused("tie_word_embeddings", 1);
    refused("eos_token_id", {1.5});
    error_of(ErrorCode::kData, [] { parse_hf_llama_config(nlohmann::json::array(), "c"); });
}

TEST(HfConfig, Fuzz) {
    const TempFolder folder;
    const std::string valid = golden_config().dump(1);
    fuzz(valid, valid.size(), 4000, folder / "config.json",
         [](const std::filesystem::path& path) { read_hf_llama_config(path); });
}

class ModelFolderTest : public ::testing::Test {
protected:
    void SetUp() override {
        save_safetensors(folder_ / "model-1.safetensors",
                         {{"a", at::full({2}, 1.0)}, {"b", at::full({3}, 2.0)}});
        save_safetensors(folder_ / "model-2.safetensors", {{"c", at::full({4}, 3.0)}});
        map_ = {{"a", "model-1.safetensors"},
                {"b", "model-1.safetensors"},
                {"c", "model-2.safetensors"}};
    }
    void write_index() {
        write_json(folder_ / "model.safetensors.index.json",
                   {{"metadata", {{"total_size", 36}}}, {"weight_map", map_}});
    }
    std::string refused() {
        write_index();
        return error_of(ErrorCode::kData, [&] { ModelFolder model(folder_.path()); });
    }
    TempFolder folder_;
    nlohmann::json map_;
};

TEST_F(ModelFolderTest, ReadsShards) {
    write_index();
    const ModelFolder model(folder_.path());
    EXPECT_EQ(model.names(), (std::vector<std::string>{"a", "b", "c"}));
    const auto all = model.load_all();
    EXPECT_TRUE(all.at("b").equal(at::full({3}, 2.0)));
    EXPECT_TRUE(all.at("c").equal(at::full({4}, 3.0)));
    EXPECT_EQ(model.info("c").shape, (std::vector<std::int64_t>{4}));
    error_of(ErrorCode::kData, [&] { model.load("d"); });
}

TEST_F(ModelFolderTest, OneFileComesBeforeTheIndex) {
    write_index();
    std::filesystem::copy_file(kGolden / "llama_tiny_weights.safetensors",
                               folder_ / "model.safetensors");
    EXPECT_TRUE(ModelFolder(folder_.path()).contains("lm_head.weight"));
}

TEST_F(ModelFolderTest, RefusesIndexAndShardsThatDisagree) {
    EXPECT_TRUE(refuses(
        ErrorCode::kData, [&] { ModelFolder model(folder_.path()); }, "holds neither"));
    const nlohmann::json good = map_;
    map_["a"] = "model-2.safetensors";
    EXPECT_NE(refused().find("'a' is not in model-2"), std::string::npos);
    map_ = good;
    map_.erase("b");
    EXPECT_NE(refused().find("holds tensor 'b'"), std::string::npos);
    map_ = good;
    map_["c"] = "model-3.safetensors";
    EXPECT_NE(refused().find("model-3.safetensors"), std::string::npos);
    for (const char* name : {"../x.safetensors", "/etc/passwd", "", "..", "."}) {
        map_["c"] = name;
        EXPECT_NE(refused().find("not the name of a file"), std::string::npos) << name;
    }
    map_["c"] = 5;
    EXPECT_NE(refused().find("'c'"), std::string::npos);
    map_ = 5;
    EXPECT_NE(refused().find("weight_map"), std::string::npos);
}

TEST_F(ModelFolderTest, FuzzIndex) {
    write_index();
    const std::string valid = read_bytes(folder_ / "model.safetensors.index.json");
    std::mt19937_64 random(3);
    for (int i = 0; i < 3000; ++i) {
        write_bytes(folder_ / "model.safetensors.index.json", mutate(valid, random, valid.size()));
        try {
            ModelFolder(folder_.path()).load_all();
        } catch (const Error& error) {
            ASSERT_EQ(error.code(), ErrorCode::kData) << error.what();
        }
    }
}

}  // namespace
}  // namespace subbyte::io
