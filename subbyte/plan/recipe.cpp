// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/recipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"

namespace subbyte::plan {
namespace {

// X, W and G of a layer; every GEMM reads two of them.
struct Row {
    const char *name, *x, *w, *g;
};

constexpr Row kRows[] = {
    {"fp32", "fp32", "fp32", "fp32"},
    {"bf16", "bf16", "bf16", "bf16"},
    {"fp8", "e4m3:1x128:f32", "e4m3:128x128:f32", "e4m3:1x128:f32"},
    {"fp4", "e2m1:1x128:f32", "e2m1:128x128:f32", "e2m1:1x128:f32:sr"},
    {"mxfp8", "e4m3:1x32:e8m0/rceil", "e4m3:1x32:e8m0/rceil", "e4m3:1x32:e8m0/rceil"},
    {"mxfp4", "e2m1:1x32:e8m0/rceil", "e2m1:1x32:e8m0/rceil", "e2m1:1x32:e8m0/rceil"},
    {"nvfp4", "e2m1:1x16:ue4m3+f32", "e2m1:16x16:ue4m3+f32", "e2m1:1x16:ue4m3+f32:sr"},
    {"int8", "int8:1x128:f32", "int8:128x128:f32", "int8:1x128:f32"},
    {"int4", "int4:1x128:f32", "int4:128x128:f32", "int4:1x128:f32:sr"},
};

int bits(const formats::QuantSpec& spec) { return spec.is_fp32() ? 32 : spec.element->bits; }

std::vector<Recipe> make_recipes() {
    std::vector<Recipe> recipes;
    for (const Row& row : kRows) {
        const formats::QuantSpec x = formats::parse_spec(row.x), w = formats::parse_spec(row.w),
                                 g = formats::parse_spec(row.g);
        recipes.push_back({row.name, {{{x, w}, {g, w}, {g, x}}}});
    }
    return recipes;
}

const std::vector<Recipe>& recipes() {
    static const std::vector<Recipe> all = make_recipes();
    return all;
}

}  // namespace

double SlotRecipe::element_bits() const { return 0.5 * (bits(a) + bits(b)); }

int SlotRecipe::widest_bits() const { return std::max(bits(a), bits(b)); }

bool Recipe::is_high_precision() const {
    return std::all_of(slots.begin(), slots.end(),
                       [](const SlotRecipe& s) { return bits(s.a) >= 16 && bits(s.b) >= 16; });
}

Recipe find_recipe(std::string_view name) {
    for (const Recipe& recipe : recipes()) {
        if (recipe.name == name) return recipe;
    }
    throw Error(ErrorCode::kUsage, fmt::format("unknown recipe '{}'", name),
                nearest_hint(name, recipe_names()));
}

std::vector<std::string> recipe_names() {
    std::vector<std::string> names;
    for (const Recipe& recipe : recipes()) names.push_back(recipe.name);
    return names;
}

}  // namespace subbyte::plan
