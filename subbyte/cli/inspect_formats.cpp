// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte inspect formats
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "subbyte/cli/inspect.h"
#include "subbyte/cli/output.h"
#include "subbyte/formats/spec.h"
#include "subbyte/plan/recipe.h"

namespace subbyte::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string_view specials_text(formats::Specials specials) {
    switch (specials) {
        case formats::Specials::kNone: return "none";
        case formats::Specials::kNanOnly: return "NaN";
        case formats::Specials::kIeee: return "Inf, NaN";
        case formats::Specials::kReserved: return "NaN (top exponent)";
    }
    return "";
}

std::string_view kind_text(formats::ElementKind kind) {
    switch (kind) {
        case formats::ElementKind::kFloat: return "float";
        case formats::ElementKind::kInteger: return "integer";
        case formats::ElementKind::kLog: return "logarithmic";
        case formats::ElementKind::kTable: return "table";
    }
    return "";
}

// The abbreviations whose element this is.
std::vector<std::string> specs_with(const formats::ElementFormat& element) {
    std::vector<std::string> names;
    for (const formats::NamedSpec& named : formats::named_specs()) {
        if (formats::parse_spec(named.text).element == &element) names.emplace_back(named.name);
    }
    return names;
}

// Recipes that quantise X in another way than the spec of the same name.
std::vector<std::string> differing_recipes() {
    std::vector<std::string> lines;
    for (const formats::NamedSpec& named : formats::named_specs()) {
        const auto recipes = plan::recipe_names();
        if (std::find(recipes.begin(), recipes.end(), named.name) == recipes.end()) continue;
        const formats::QuantSpec x = plan::find_recipe(named.name)[plan::Slot::kFprop].a;
        if (x == formats::parse_spec(named.text)) continue;
        lines.push_back(fmt::format("The spec {0} is {1}; the recipe {0} trains with {2}.",
                                    named.name, named.text, formats::to_string(x)));
    }
    return lines;
}

nlohmann::json formats_json() {
    nlohmann::json elements = nlohmann::json::object(), names = nlohmann::json::object();
    nlohmann::json recipes = nlohmann::json::object(), scales = nlohmann::json::object();
    for (const formats::ElementFormat& format : formats::element_formats()) {
        elements[std::string(format.name)] = {{"kind", kind_text(format.kind)},
                                              {"bits", format.bits},
                                              {"exponent_bits", format.exponent_bits},
                                              {"mantissa_bits", format.mantissa_bits},
                                              {"bias", format.bias},
                                              {"max", format.max},
                                              {"lowest", format.lowest},
                                              {"min_normal", format.min_normal()},
                                              {"min_positive", format.min_positive()},
                                              {"specials", specials_text(format.specials)},
                                              {"specs", specs_with(format)}};
    }
    for (const formats::ScaleFormat format : formats::scale_formats()) {
        std::vector<std::string> rules;
        for (const formats::ScaleRule rule : formats::scale_rules(format)) {
            rules.emplace_back(formats::scale_rule_name(rule));
        }
        scales[std::string(formats::scale_name(format))] = {{"rules", rules}};
    }
    for (const formats::NamedSpec& named : formats::named_specs()) {
        names[std::string(named.name)] = named.text;
    }
    for (const std::string& name : plan::recipe_names()) {
        const plan::Recipe recipe = plan::find_recipe(name);
        for (const plan::Slot slot : plan::kSlots) {
            recipes[name][std::string(plan::slot_name(slot))] = {
                {"a", formats::to_string(recipe[slot].a)},
                {"b", formats::to_string(recipe[slot].b)}};
        }
    }
    return {{"elements", elements}, {"scales", scales}, {"specs", names}, {"recipes", recipes}};
}

std::string elements_text() {
    Rows rows{{"element", "bits", "kind", "max", "lowest", "min normal", "min positive", "specials",
               "in specs"}};
    for (const formats::ElementFormat& format : formats::element_formats()) {
        rows.push_back({std::string(format.name), fmt::to_string(format.bits),
                        std::string(kind_text(format.kind)), fmt::format("{:g}", format.max),
                        fmt::format("{:g}", format.lowest),
                        fmt::format("{:g}", format.min_normal()),
                        fmt::format("{:g}", format.min_positive()),
                        std::string(specials_text(format.specials)),
                        fmt::format("{}", fmt::join(specs_with(format), ", "))});
    }
    return table_text(rows) +
           "Any e<x>m<y> of at most 8 bits is an element too, with the suffix fn (one NaN) or ieee "
           "(Inf and NaN).\n";
}

std::string scales_text() {
    Rows rows{{"scale", "max", "rules"}};
    for (const formats::ScaleFormat format : formats::scale_formats()) {
        std::vector<std::string_view> rules;
        for (const formats::ScaleRule rule : formats::scale_rules(format)) {
            rules.push_back(formats::scale_rule_name(rule));
        }
        const bool coded = format != formats::ScaleFormat::kFp32;
        rows.push_back({std::string(formats::scale_name(format)),
                        coded ? fmt::format("{:g}", formats::scale_max(format)) : "",
                        fmt::format("{}", fmt::join(rules, ", "))});
    }
    return table_text(rows);
}

void show_formats(bool json) {
    if (json) return print_json(formats_json());
    print(elements_text());
    print("\n" + scales_text());
    Rows rows{{"spec", "stands for"}};
    for (const formats::NamedSpec& named : formats::named_specs()) {
        rows.push_back({std::string(named.name), std::string(named.text)});
    }
    print("\n" + table_text(rows));
    rows = {{"recipe", "fprop X, W", "dgrad G, W^T", "wgrad G^T, X^T"}};
    for (const std::string& name : plan::recipe_names()) {
        std::vector<std::string> row{name};
        for (const plan::SlotRecipe& slot : plan::find_recipe(name).slots) {
            row.push_back(
                fmt::format("{}, {}", formats::to_string(slot.a), formats::to_string(slot.b)));
        }
        rows.push_back(std::move(row));
    }
    print("\n" + table_text(rows));
    for (const std::string& line : differing_recipes()) print(line + "\n");
}

}  // namespace

void add_inspect_formats(CLI::App& inspect) {
    CLI::App* verb = inspect.add_subcommand(
        "formats", "Element and scale formats, named specs and what each recipe quantises to");
    auto json = std::make_shared<bool>(false);
    verb->add_flag("--json", *json, "As JSON");
    verb->callback([json] { show_formats(*json); });
}

}  // namespace subbyte::cli
