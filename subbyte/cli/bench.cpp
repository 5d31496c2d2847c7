// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte bench gemm --spec S [--b-spec S] --shape M,N,K
//
// subbyte bench layer --recipe R --shape T,K,N
//
// subbyte bench quantize --spec S --shape ROWS,COLS
//
// subbyte bench step --recipe R --model P
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "subbyte/bench/benchmarks.h"
#include "subbyte/cli/bench.h"
#include "subbyte/cli/output.h"
#include "subbyte/cli/verbs.h"

namespace subbyte::cli {
namespace {

struct BenchArguments {
    std::string spec = "fp4", b_spec, recipe = "fp4", head = "bf16", model = "llama-9m",
                activations = "auto";
    std::vector<std::int64_t> shape;
    std::int64_t batch = 8, tokens = 256;
    bench::Effort effort;
    bool json = false, alone = false, recompute = false, in_backward = false;
};

// One line per figure; numbers with four digits.
void show(const BenchArguments& a, const nlohmann::json& result) {
    if (a.json) return print_json(result);
    std::vector<std::vector<std::string>> rows{{"figure", "value"}};
    for (const auto& [key, value] : result.items()) {
        rows.push_back({key, value.is_number_float() ? fmt::format("{:.4g}", value.get<double>())
                             : value.is_string()     ? value.get<std::string>()
                                                     : value.dump()});
    }
    print(table_text(rows));
}

CLI::App* add_benchmark(CLI::App& verb, const std::shared_ptr<BenchArguments>& a, const char* name,
                        const char* text) {
    CLI::App* benchmark = verb.add_subcommand(name, text);
    benchmark->add_option("--threads", a->effort.threads, "Threads; 0: all cores")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    benchmark->add_option("--seconds", a->effort.seconds, "Measure for about this long")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    benchmark->add_option("--rounds", a->effort.least_rounds, "Measure at least so often")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    benchmark->add_flag("--json", a->json, "One JSON object");
    return benchmark;
}

void add_shape(CLI::App* benchmark, const std::shared_ptr<BenchArguments>& a, const char* names,
               int count, const char* standard) {
    benchmark->add_option("--shape", a->shape, fmt::format("Sizes; without: {}", standard))
        ->delimiter(',')
        ->expected(count)
        ->type_name(names);
}

}  // namespace

void add_bench(CLI::App& program) {
    auto a = std::make_shared<BenchArguments>();
    CLI::App* verb = program.add_subcommand(
        "bench", "Times of our parts beside LibTorch's FP32 and BF16, in one run");
    verb->require_subcommand(0, 1);
    add_bench_profile(*verb);

    CLI::App* gemm = add_benchmark(*verb, a, "gemm", "One matrix product of packed operands");
    gemm->add_option("--spec", a->spec, "Number format of A and B, or a recipe")
        ->capture_default_str();
    gemm->add_option("--b-spec", a->b_spec, "Number format of B");
    add_shape(gemm, a, "M,N,K", 3, "1024,1024,1024");
    gemm->callback([a] {
        bench::GemmShape shape;
        if (!a->shape.empty()) shape = {a->shape[0], a->shape[1], a->shape[2]};
        show(*a, bench::bench_gemm(a->spec, a->b_spec, shape, a->effort));
    });

    CLI::App* layer = add_benchmark(*verb, a, "layer", "A linear layer, forward and backward");
    layer->add_option("--recipe", a->recipe, "Precision of its GEMMs")->capture_default_str();
    add_shape(layer, a, "T,K,N", 3, "1024,1024,1024");
    layer->callback([a] {
        bench::LayerShape shape;
        if (!a->shape.empty()) shape = {a->shape[0], a->shape[1], a->shape[2]};
        show(*a, bench::bench_layer(a->recipe, shape, a->effort));
    });

    CLI::App* quantize = add_benchmark(*verb, a, "quantize", "Quantising a matrix");
    quantize->add_option("--spec", a->spec, "Number format")->capture_default_str();
    add_shape(quantize, a, "ROWS,COLS", 2, "1024,1024");
    quantize->callback([a] {
        const bool given = !a->shape.empty();
        show(*a, bench::bench_quantize(a->spec, given ? a->shape[0] : 1024,
                                       given ? a->shape[1] : 1024, a->effort));
    });

    CLI::App* step = add_benchmark(*verb, a, "step", "A training step of a model");
    step->add_option("--recipe", a->recipe, "Precision of the blocks")->capture_default_str();
    step->add_option("--head", a->head, "Precision of the head")->capture_default_str();
    step->add_option("--model", a->model, "Preset")->capture_default_str();
    step->add_option("--batch", a->batch, "Sequences")->capture_default_str();
    step->add_option("--seq", a->tokens, "Tokens per sequence")->capture_default_str();
    step->add_flag("--recompute", a->recompute, "Ours computes each block again in backward");
    step->add_option("--activations", a->activations, "What ours keeps between layers")
        ->capture_default_str()
        ->check(CLI::IsMember(ops::keep_names()));
    step->add_flag("--in-backward", a->in_backward, "Ours updates each weight inside backward");
    step->add_flag("--alone", a->alone, "Without LibTorch's models: shows our peak memory");
    step->callback([a] {
        show(*a, bench::bench_step(a->recipe, a->head, a->model,
                                   {a->batch, a->tokens, a->recompute, a->in_backward,
                                    ops::keep_of(a->activations)},
                                   a->alone, a->effort));
    });
}

}  // namespace subbyte::cli
