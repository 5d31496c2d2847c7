// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte bench --profile OUT.json [--shapes MODEL|TxKxN,...] [--recipes R,...]
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "subbyte/bench/benchmarks.h"
#include "subbyte/cli/bench.h"
#include "subbyte/cli/output.h"
#include "subbyte/core/error.h"
#include "subbyte/io/json_file.h"
#include "subbyte/train/config_reader.h"
#include "subbyte/train/plan_model.h"

namespace subbyte::cli {
namespace {

struct ProfileArguments {
    std::string out;
    std::vector<std::string> shapes{"llama-9m"}, recipes{"fp8", "fp4"};
    std::int64_t tokens = 0;
    bench::Effort effort;
    bool json = false;
};

// "1024x512x1376"; nothing when it is not three numbers.
std::vector<bench::LayerShape> read_shape(const std::string& text) {
    std::vector<std::int64_t> sizes;
    const char *at = text.data(), *end = text.data() + text.size();
    while (true) {
        std::int64_t size = 0;
        const auto [stop, error] = std::from_chars(at, end, size);
        if (error != std::errc{}) return {};
        sizes.push_back(size);
        if (stop == end) break;
        if (*stop != 'x') return {};
        at = stop + 1;
    }
    if (sizes.size() != 3) return {};
    return {{.tokens = sizes[0], .in = sizes[1], .out = sizes[2]}};
}

// The candidates of a configuration, as one layer each.
plan::LayerTable layers_of(const std::string& model, std::int64_t tokens) {
    plan::LayerTable table = train::plan_model(train::load_config(model).config, {}).table;
    for (plan::LayerInfo& layer : table) {
        if (tokens > 0) layer.tokens = tokens;
    }
    return table;
}

// The layers that a profile is wanted for.
plan::LayerTable wanted_layers(const ProfileArguments& a) {
    plan::LayerTable table;
    for (const std::string& text : a.shapes) {
        const std::vector<bench::LayerShape> shape = read_shape(text);
        if (shape.empty()) {
            const plan::LayerTable layers = layers_of(text, a.tokens);
            table.insert(table.end(), layers.begin(), layers.end());
            continue;
        }
        plan::LayerInfo layer;
        layer.name = layer.type = text;
        layer.tokens = shape[0].tokens;
        layer.in_features = shape[0].in;
        layer.out_features = shape[0].out;
        table.push_back(layer);
    }
    return table;
}

std::vector<bench::LayerShape> shapes_of(const plan::LayerTable& table) {
    std::vector<bench::LayerShape> shapes;
    for (const plan::LayerInfo& layer : table) {
        const auto same = [&](const bench::LayerShape& s) {
            return s.tokens == layer.tokens && s.in == layer.in_features &&
                   s.out == layer.out_features;
        };
        if (!layer.candidate || std::any_of(shapes.begin(), shapes.end(), same)) continue;
        shapes.push_back({layer.tokens, layer.in_features, layer.out_features});
    }
    return shapes;
}

void run_profile(const ProfileArguments& a) {
    const plan::LayerTable table = wanted_layers(a);
    const plan::MachineProfile profile =
        bench::measure_profile(shapes_of(table), a.recipes, a.effort);
    io::write_json(a.out, plan::to_json(profile));
    if (a.json) return print_json(plan::to_json(profile));
    print(fmt::format("{}, {}, {} threads; times of one layer (three GEMMs with quantising)\n",
                      profile.cpu, profile.isa, profile.threads) +
          times_text(plan::measured_times(table, profile, profile.recipes())) +
          "written: " + a.out + "\n");
}

}  // namespace

std::string times_text(const std::vector<plan::MeasuredTime>& times) {
    std::vector<std::vector<std::string>> rows{
        {"type", "layers", "T x K x N", "recipe", "ms", "quantising", "against bf16", "remark"}};
    for (const plan::MeasuredTime& time : times) {
        std::string remark = time.measured ? "" : "interpolated";
        if (!time.pays() && time.recipe != "bf16") {
            remark = remark.empty() ? "does not pay" : "does not pay, interpolated";
        }
        rows.push_back(
            {time.type, fmt::to_string(time.layers),
             fmt::format("{} x {} x {}", time.tokens, time.in_features, time.out_features),
             time.recipe, fmt::format("{:.3f}", 1e3 * time.seconds),
             fmt::format("{:.1f}%", 100 * time.quantise / time.seconds),
             fmt::format("{:.2f}x", time.bf16_seconds / time.seconds), remark});
    }
    return table_text(rows);
}

void add_bench_profile(CLI::App& verb) {
    auto a = std::make_shared<ProfileArguments>();
    verb.add_option("--profile", a->out,
                    "Measure what the recipes take on this machine, for plan --profile")
        ->type_name("OUT.json");
    const auto with_profile = [&](CLI::Option* option) {
        return option->needs("--profile")->capture_default_str();
    };
    with_profile(verb.add_option("--shapes", a->shapes,
                                 "Layers of configurations or presets, and shapes TxKxN"))
        ->delimiter(',')
        ->type_name("MODEL|TxKxN");
    with_profile(verb.add_option("--recipes", a->recipes, "Recipes to measure beside bf16"))
        ->delimiter(',');
    with_profile(verb.add_option("--tokens", a->tokens,
                                 "Rows of X; 0: those of the configuration's micro-batch"))
        ->check(CLI::NonNegativeNumber);
    with_profile(verb.add_option("--threads", a->effort.threads, "Threads; 0: all cores"))
        ->check(CLI::NonNegativeNumber);
    with_profile(verb.add_option("--seconds", a->effort.seconds, "Per shape"))
        ->check(CLI::NonNegativeNumber);
    with_profile(verb.add_option("--rounds", a->effort.least_rounds, "Measure at least so often"))
        ->check(CLI::PositiveNumber);
    verb.add_flag("--json", a->json, "The profile as JSON")->needs("--profile");
    // Before any benchmark runs.
    verb.parse_complete_callback([&verb, a] {
        const bool named = !verb.get_subcommands().empty();
        if (named && !a->out.empty()) {
            throw Error(ErrorCode::kUsage, "bench --profile and another benchmark",
                        "run one of them");
        }
        if (!named && a->out.empty()) {
            throw Error(ErrorCode::kUsage, "bench: nothing to measure",
                        "name one or give --profile FILE: subbyte bench --help");
        }
    });
    verb.callback([a] {
        if (!a->out.empty()) run_profile(*a);
    });
}

}  // namespace subbyte::cli
