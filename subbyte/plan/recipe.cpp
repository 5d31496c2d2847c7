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

using Spec = formats::QuantSpec;

Recipe make_recipe(std::string_view name, const Spec& x, const Spec& w, const Spec& g) {
    return {std::string(name), {{{x, w}, {g, w}, {g, x}}}};
}

std::vector<Recipe> make_recipes() {
    std::vector<Recipe> recipes;
    for (const Row& row : kRows) {
        recipes.push_back(make_recipe(row.name, formats::parse_spec(row.x),
                                      formats::parse_spec(row.w), formats::parse_spec(row.g)));
    }
    return recipes;
}

const std::vector<Recipe>& recipes() {
    static const std::vector<Recipe> all = make_recipes();
    return all;
}

constexpr const char* kVariants =
    "a variant changes the tile or spec of x, w or g, e.g. fp4.w=1x16";

[[noreturn]] void refuse(std::string_view name, const std::string& what) {
    throw Error(ErrorCode::kUsage, fmt::format("recipe '{}': {}", name, what), kVariants);
}

// A spec, or a tile to put into `old`.
Spec changed(std::string_view name, const Spec& old, std::string_view text) {
    const bool tile =
        text == "row" || text == "tensor" ||
        (text.find(':') == text.npos && !text.empty() && text[0] >= '0' && text[0] <= '9');
    if (tile && !old.is_scaled()) {
        refuse(name, fmt::format("{} has no tiles that {} could stand for", formats::to_string(old),
                                 text));
    }
    try {
        if (!tile) return formats::parse_spec(text);
        Spec spec = old;
        spec.tile = formats::parse_spec(fmt::format("e4m3:{}:f32", text)).tile;
        return spec;
    } catch (const Error& error) {
        const std::string message = error.what();  // with the place below, on lines of its own
        refuse(name, message.substr(0, message.find('\n')));
    }
}

// NAME.OPERAND=SPEC...; `base` is NAME.
Recipe make_variant(std::string_view name, const Recipe& base, std::string_view changes) {
    Spec x = base[Slot::kFprop].a, w = base[Slot::kFprop].b, g = base[Slot::kDgrad].a;
    for (bool more = true; more;) {
        const std::size_t end = std::min(changes.find('.'), changes.size());
        const std::string_view part = changes.substr(0, end);
        more = end < changes.size();
        changes.remove_prefix(more ? end + 1 : end);
        const bool known = part.size() > 2 && part[1] == '=' &&
                           (part[0] == 'x' || part[0] == 'w' || part[0] == 'g');
        if (!known) refuse(name, fmt::format("'{}' is no change", part));
        Spec& operand = part[0] == 'x' ? x : part[0] == 'w' ? w : g;
        operand = changed(name, operand, part.substr(2));
    }
    return make_recipe(name, x, w, g);
}

}  // namespace

double SlotRecipe::element_bits() const { return 0.5 * (bits(a) + bits(b)); }

int SlotRecipe::widest_bits() const { return std::max(bits(a), bits(b)); }

bool Recipe::is_high_precision() const {
    return std::all_of(slots.begin(), slots.end(),
                       [](const SlotRecipe& s) { return bits(s.a) >= 16 && bits(s.b) >= 16; });
}

Recipe find_recipe(std::string_view name) {
    const std::size_t end = std::min(name.find('.'), name.size());
    for (const Recipe& recipe : recipes()) {
        if (recipe.name != name.substr(0, end)) continue;
        if (end == name.size()) return recipe;
        return make_variant(name, recipe, name.substr(end + 1));
    }
    throw Error(ErrorCode::kUsage, fmt::format("unknown recipe '{}'", name),
                nearest_hint(name.substr(0, end), recipe_names()));
}

std::pair<std::string, std::string> recipe_mistake(std::string_view name) {
    try {
        find_recipe(name);
    } catch (const Error& error) {
        return {error.what(), error.hint()};
    }
    return {};
}

std::vector<std::string> recipe_names() {
    std::vector<std::string> names;
    for (const Recipe& recipe : recipes()) names.push_back(recipe.name);
    return names;
}

}  // namespace subbyte::plan
