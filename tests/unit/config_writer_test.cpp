// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/config_writer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "subbyte/train/config_model.h"
#include "subbyte/train/config_presets.h"
#include "subbyte/train/config_rules.h"
#include "subbyte/train/config_schema.h"
#include "subbyte/train/config_value.h"

namespace subbyte::train {
namespace {

Config reread(const Config& config) {
    return parse_config(to_toml(config), "resolved.toml").config;
}

TEST(ConfigWriter, PresetsSurviveWritingAndReading) {
    for (const std::string& name : config_presets()) {
        const Config config = load_config(name).config;
        EXPECT_EQ(reread(config), config) << name;
    }
}

TEST(ConfigWriter, EveryKeySurvivesWritingAndReading) {
    // One file per key with a value that is not the default.
    for (const Key<Config>& key : config_keys()) {
        const std::string path(key.path);
        if (path == "model.path") continue;  // excludes model.preset; below
        Config config = load_config("llama-9m").config;
        std::visit(
            [&](auto* value) {
                using T = std::remove_pointer_t<decltype(value)>;
                if constexpr (std::is_same_v<T, std::int64_t>) {
                    *value = path == "train.seq_len" ? 1000 : 2 * *value + 2;
                } else if constexpr (std::is_same_v<T, double>) {
                    *value = path == "precision.snip.target" ? 0.1 + 0.2 : *value / 3 + 0.1;
                } else if constexpr (std::is_same_v<T, bool>) {
                    *value = !*value;
                } else if constexpr (std::is_same_v<T, StepCount>) {
                    *value = StepCount::share(100.0 / 3.0);
                } else if constexpr (std::is_same_v<T, std::array<double, 2>>) {
                    *value = {1.0 / 3.0, 0};
                } else if constexpr (std::is_same_v<T, std::string>) {
                    const auto choices =
                        key.limits.choices ? key.limits.choices() : std::vector<std::string>{};
                    *value = choices.empty()            ? "a \"b\"\\\t\x7f.model"
                             : *value == choices.back() ? choices.front()
                                                        : choices.back();
                } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
                    *value = {0, 3};
                } else {
                    *value = key.limits.choices ? std::vector<std::string>{"fp4", "int8"}
                                                : std::vector<std::string>{"a.txt", "b\n.txt"};
                }
            },
            key.field(config));
        if (path == "model.heads") config.model.heads = 4;
        if (path == "model.kv_heads") config.model.kv_heads = 2;
        if (path == "model.hidden_size") config.model.hidden_size = 512;
        if (path == "model.max_position") config.model.max_position = 4000;
        if (path == "optim.in_backward") config.optim.grad_clip = 0;
        if (path == "precision.snip.labels") config.precision.snip.estimator = "fisher";
        if (path == "precision.head") config.precision.recipe = "snip";
        if (path == "train.grad_accum") config.train.grad_accum = 4;
        if (path == "data.val_fraction") config.data.val_fraction = 1.0 / 3.0;
        ASSERT_NE(value_text(key.field(config)), value_text(key.field(*std::make_unique<Config>())))
            << path;
        EXPECT_EQ(reread(config), config) << path << "\n" << to_toml(config);
    }
    const Config from_path = parse_config("[model]\npath = \"hf/folder\"\n", "x.toml").config;
    EXPECT_EQ(from_path.model.path, "hf/folder");
    EXPECT_EQ(reread(from_path), from_path);
}

TEST(ConfigWriter, RulesSurviveWritingAndReading) {
    Config config = load_config("llama-9m").config;
    config.precision.rules = {{"*.mlp.*", "fp4", ""}, {"lm_head", "fp8", "dgrad"}};
    EXPECT_EQ(reread(config), config);
}

TEST(ConfigWriter, OriginsAreShownBesideTheValues) {
    const LoadedConfig loaded =
        parse_config("[model]\npreset = \"llama-9m\"\n", "run.toml", {"optim.lr=0.5"});
    const std::string text = to_toml(loaded);
    EXPECT_NE(text.find("# run.toml:2"), std::string::npos);
    EXPECT_NE(text.find("# --set optim.lr=0.5"), std::string::npos);
    EXPECT_NE(text.find("# default"), std::string::npos);
    EXPECT_EQ(parse_config(text, "x.toml").config, loaded.config);  // comments change nothing

    const nlohmann::json json = to_json(loaded);
    EXPECT_EQ(json["optim.lr"]["value"], 0.5);
    EXPECT_EQ(json["optim.lr"]["origin"], "--set optim.lr=0.5");
    EXPECT_EQ(json["model.preset"]["origin"], "run.toml:2");
    EXPECT_EQ(json["optim.warmup_steps"]["value"], "5%");
    EXPECT_EQ(json.size(), config_keys().size() + 1);
}

TEST(ConfigSchema, EveryKeyIsListedOnceWithAMeaningAndAValidDefault) {
    std::set<std::string_view> paths;
    Config defaults;
    for (const Key<Config>& key : config_keys()) {
        EXPECT_TRUE(paths.insert(key.path).second) << key.path;
        EXPECT_FALSE(key.meaning.empty()) << key.path;
        const Field field = key.field(defaults);
        const std::string value = value_text(field);
        if (value == "\"\"") continue;  // not given
        EXPECT_EQ(check_limits(field, key.limits, value).what, "") << key.path;
    }
    const std::string text = schema_text();
    for (const std::string_view path : paths) EXPECT_NE(text.find(path), text.npos) << path;
    EXPECT_EQ(schema_json().size(), config_keys().size() + rule_keys().size());
}

TEST(ConfigRules, LastMatchWinsPerSlot) {
    plan::LayerTable table(2);
    table[0].name = "model.layers.0.mlp.up_proj";
    table[1].name = "lm_head";
    const auto rules = resolve_rules({{"model.*", "fp4", ""},
                                      {"*.up_proj", "bf16", "wgrad"},
                                      {"model.layers.[01].*", "fp8", "dgrad"}},
                                     table);
    ASSERT_EQ(rules.size(), 1u);
    EXPECT_EQ(rules.at(table[0].name), (std::array<std::string, 3>{"fp4", "fp8", "bf16"}));
    EXPECT_THROW(resolve_rules({{"nothing", "fp4", ""}}, table), std::runtime_error);
}

TEST(ConfigRules, GlobCoversTheWholeName) {
    EXPECT_TRUE(glob_match("*", "a.b.c"));
    EXPECT_TRUE(glob_match("a.*.c", "a.b.x.c"));
    EXPECT_TRUE(glob_match("a.?", "a.b"));
    EXPECT_FALSE(glob_match("a", "a.b"));
    EXPECT_FALSE(glob_match("b", "a.b"));
    EXPECT_FALSE(glob_match("a.?", "a.bb"));
}

TEST(ConfigModel, ExplicitSizesOverrideThePreset) {
    Config config;
    config.model.preset = "tinyllama-1.1b";
    models::LlamaConfig shape = model_config(config, 100);
    EXPECT_EQ(shape.hidden_size, 2048);
    EXPECT_EQ(shape.kv_heads, 4);
    EXPECT_EQ(shape.vocab_size, 100);
    config.model.hidden_size = 1024;
    config.model.heads = 16;
    config.model.vocab_size = 7;
    config.model.norm_eps = 1e-3;
    shape = model_config(config, 100);
    EXPECT_EQ(shape.hidden_size, 1024);
    EXPECT_EQ(shape.intermediate_size, 5632);
    EXPECT_EQ(shape.kv_heads, 16);
    EXPECT_EQ(shape.vocab_size, 7);
    EXPECT_EQ(shape.norm_eps, 1e-3);
    EXPECT_EQ(shape.max_position, 2048);

    Config own;
    own.model.hidden_size = 64;
    own.model.heads = 4;
    shape = model_config(own, 100);
    EXPECT_EQ(shape.layers, 0);
    EXPECT_EQ(shape.kv_heads, 4);
    EXPECT_EQ(shape.max_position, own.train.seq_len);
}

}  // namespace
}  // namespace subbyte::train
