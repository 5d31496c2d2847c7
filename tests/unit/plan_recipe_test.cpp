// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/recipe.h"

#include <gtest/gtest.h>

#include "plan_tables.h"
#include "subbyte/core/error.h"
#include "subbyte/plan/layer_table.h"

namespace subbyte::plan {
namespace {

std::string text(const std::string& recipe, Slot slot, bool b) {
    const SlotRecipe operands = find_recipe(recipe)[slot];
    return formats::to_string(b ? operands.b : operands.a);
}

TEST(Recipe, TilesAndRoundingOfSnip) {
    EXPECT_EQ(text("fp8", Slot::kFprop, false), "e4m3:1x128:f32");
    EXPECT_EQ(text("fp8", Slot::kFprop, true), "e4m3:128x128:f32");
    EXPECT_EQ(text("fp8", Slot::kDgrad, false), "e4m3:1x128:f32");
    EXPECT_EQ(text("fp4", Slot::kFprop, false), "e2m1:1x128:f32");
    EXPECT_EQ(text("fp4", Slot::kFprop, true), "e2m1:128x128:f32");
    // Stochastic rounding on G only.
    EXPECT_EQ(text("fp4", Slot::kDgrad, false), "e2m1:1x128:f32:sr");
    EXPECT_EQ(text("fp4", Slot::kDgrad, true), "e2m1:128x128:f32");
    EXPECT_EQ(text("fp4", Slot::kWgrad, false), "e2m1:1x128:f32:sr");
    EXPECT_EQ(text("fp4", Slot::kWgrad, true), "e2m1:1x128:f32");
    EXPECT_EQ(text("mxfp4", Slot::kWgrad, false), "e2m1:1x32:e8m0/rceil");
    EXPECT_EQ(text("mxfp8", Slot::kFprop, true), "e4m3:1x32:e8m0/rceil");
    EXPECT_EQ(text("nvfp4", Slot::kFprop, true), "e2m1:16x16:ue4m3+f32");
    EXPECT_EQ(text("nvfp4", Slot::kWgrad, false), "e2m1:1x16:ue4m3+f32:sr");
    EXPECT_EQ(text("bf16", Slot::kWgrad, false), "bf16");
    EXPECT_EQ(text("fp32", Slot::kDgrad, true), "fp32");
}

TEST(Recipe, EveryWeightSpecServesBothGemms) {
    // fprop reads W and dgrad W^T: square tiles make the same blocks of both, one-row tiles follow
    // the contraction axis.
    for (const std::string& name : recipe_names()) {
        const Recipe recipe = find_recipe(name);
        EXPECT_EQ(recipe.name, name);
        EXPECT_EQ(recipe[Slot::kFprop].b, recipe[Slot::kDgrad].b) << name;
        EXPECT_EQ(recipe[Slot::kDgrad].a, recipe[Slot::kWgrad].a) << name;
        EXPECT_EQ(recipe[Slot::kFprop].a, recipe[Slot::kWgrad].b) << name;
        EXPECT_FALSE(recipe[Slot::kFprop].b.stochastic()) << name;
    }
}

TEST(Recipe, Bits) {
    const std::pair<const char*, double> bits[] = {{"fp32", 32}, {"bf16", 16}, {"fp8", 8},
                                                   {"mxfp8", 8}, {"int8", 8},  {"fp4", 4},
                                                   {"mxfp4", 4}, {"nvfp4", 4}, {"int4", 4}};
    EXPECT_EQ(recipe_names().size(), std::size(bits));
    for (const auto& [name, expected] : bits) {
        const Recipe recipe = find_recipe(name);
        EXPECT_EQ(recipe.element_bits(), expected) << name;
        EXPECT_EQ(recipe.is_high_precision(), expected >= 16) << name;
        for (const Slot slot : kSlots) EXPECT_EQ(recipe.is_fp4(slot), expected == 4) << name;
    }
    Recipe mixed = find_recipe("fp4");
    mixed.slots[2].a = formats::parse_spec("bf16");
    EXPECT_FALSE(mixed.is_fp4(Slot::kWgrad));
    EXPECT_TRUE(mixed.is_fp4(Slot::kDgrad));
    EXPECT_EQ(mixed[Slot::kWgrad].element_bits(), 10);
    EXPECT_EQ(mixed[Slot::kWgrad].widest_bits(), 16);
}

TEST(Recipe, UnknownNamesGetAHint) {
    const std::pair<const char*, const char*> cases[] = {{"fp5", "did you mean 'fp8'?"},
                                                         {"nvfp", "did you mean 'nvfp4'?"},
                                                         {"BF16", ""},
                                                         {"mxfp44", "did you mean 'mxfp4'?"}};
    for (const auto& [name, hint] : cases) {
        try {
            find_recipe(name);
            FAIL() << name;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kUsage);
            EXPECT_NE(std::string(error.what()).find(name), std::string::npos);
            EXPECT_FALSE(error.hint().empty());
            EXPECT_NE(error.hint().find(hint), std::string::npos) << error.hint();
        }
    }
}

// A variant changes the operands it names, in both GEMMs that read them, and no others.
TEST(Recipe, VariantsChangeTilesAndSpecs) {
    const auto expect = [](const std::string& name, const std::string& x, const std::string& w,
                           const std::string& g) {
        SCOPED_TRACE(name);
        EXPECT_EQ(find_recipe(name).name, name);
        EXPECT_EQ(recipe_mistake(name).first, "");
        EXPECT_EQ(text(name, Slot::kFprop, false), x);
        EXPECT_EQ(text(name, Slot::kFprop, true), w);
        EXPECT_EQ(text(name, Slot::kDgrad, false), g);
        EXPECT_EQ(text(name, Slot::kDgrad, true), w);
        EXPECT_EQ(text(name, Slot::kWgrad, false), g);
        EXPECT_EQ(text(name, Slot::kWgrad, true), x);
    };
    const std::string x = "e2m1:1x128:f32", g = "e2m1:1x128:f32:sr";
    expect("fp4.w=1x128", x, "e2m1:1x128:f32", g);
    expect("fp4.w=1x16", x, "e2m1:1x16:f32", g);
    expect("fp4.x=1x32.w=1x32.g=1x32", "e2m1:1x32:f32", "e2m1:1x32:f32", "e2m1:1x32:f32:sr");
    expect("fp4.w=e2m1:1x16:ue4m3+f32", x, "e2m1:1x16:ue4m3+f32", g);
    expect("fp4.g=bf16", x, "e2m1:128x128:f32", "bf16");
    expect("mxfp4.w=e2m1:1x32:e8m0/floor.x=row", "e2m1:row:e8m0/rceil", "e2m1:1x32:e8m0/floor",
           "e2m1:1x32:e8m0/rceil");
    EXPECT_TRUE(find_recipe("fp8.x=fp4.w=1x16").is_fp4(Slot::kFprop) == false);
    EXPECT_TRUE(find_recipe("fp4.w=1x16").is_fp4(Slot::kWgrad));
    EXPECT_FALSE(find_recipe("fp4.g=bf16").is_fp4(Slot::kDgrad));
    EXPECT_EQ(find_recipe("fp4.w=128x128").slots, find_recipe("fp4").slots);
}

TEST(Recipe, VariantsThatMeanNothingAreRefused) {
    const std::pair<const char*, const char*> cases[] = {
        {"fp5.w=1x16", "unknown recipe 'fp5.w=1x16'"},
        {"fp4.", "'' is no change"},
        {"fp4.w", "'w' is no change"},
        {"fp4.w=", "'w=' is no change"},
        {"fp4.y=1x16", "'y=1x16' is no change"},
        {"fp4.w=1x0", "recipe 'fp4.w=1x0'"},
        {"fp4.w=e9m9", "recipe 'fp4.w=e9m9'"},
        {"fp4.w=1x16.", "'' is no change"},
        {"bf16.w=1x16", "bf16 has no tiles"}};
    for (const auto& [name, part] : cases) {
        const auto [message, hint] = recipe_mistake(name);
        EXPECT_NE(message.find(part), std::string::npos) << name << ": " << message;
        EXPECT_FALSE(hint.empty()) << name;
        EXPECT_THROW(find_recipe(name), Error) << name;
    }
}

TEST(LayerTable, TypeAndBlockFromTheName) {
    const std::tuple<const char*, const char*, int> cases[] = {
        {"model.layers.3.mlp.down_proj", "down_proj", 3},
        {"transformer.h.11.attn.c_attn", "c_attn", 11},
        {"lm_head", "lm_head", -1},
        {"layers.0", "layers", 0},
        {"layer2.1.downsample.0", "downsample", 1},
        {"layer2.conv1", "conv1", -1},
        {"a.99999999999999999999.b", "b", -1},
        {"", "", -1}};
    for (const auto& [name, type, block] : cases) {
        LayerInfo layer;
        layer.name = name;
        set_type_and_block(layer);
        EXPECT_EQ(layer.type, type) << name;
        EXPECT_EQ(layer.block, block) << name;
    }
}

TEST(LayerTable, SharesOfTinyLlama) {
    // q 9.52 %, k 1.19 %, gate 26.19 %, one block 4.55 %.
    const LayerTable table = tiny_llama();
    const std::vector<double> shares = candidate_shares(table);
    EXPECT_NEAR(100 * 22 * shares[0], 9.52, 5e-3);
    EXPECT_NEAR(100 * 22 * shares[1], 1.19, 5e-3);
    EXPECT_NEAR(100 * 22 * shares[4], 26.19, 5e-3);
    double block = 0, all = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
        if (table[i].block == 0) block += shares[i];
        all += shares[i];
    }
    EXPECT_NEAR(100 * block, 4.55, 5e-3);
    EXPECT_NEAR(all, 1.0, 1e-12);
    EXPECT_EQ(shares.back(), 0.0);  // the head is no candidate
}

TEST(LayerTable, Stages) {
    EXPECT_EQ(stage_count({}), 0);
    EXPECT_EQ(stage_count(tiny_llama(4)), 4);
    LayerTable table = tiny_llama();
    table[5].stage = -1;
    EXPECT_THROW(stage_count(table), Error);
}

}  // namespace
}  // namespace subbyte::plan
