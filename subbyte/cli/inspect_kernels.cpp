// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte inspect kernels
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "subbyte/cli/inspect.h"
#include "subbyte/cli/output.h"
#include "subbyte/core/error.h"
#include "subbyte/formats/spec.h"
#include "subbyte/kernels/quantize/quantize.h"
#include "subbyte/train/gemm_support.h"

namespace subbyte::cli {
namespace {

using Candidates = std::vector<kernels::Candidate>;
using Rows = std::vector<std::vector<std::string>>;

struct KernelsArguments {
    std::vector<std::int64_t> shape{1024, 1024, 1024};
    std::string spec = "fp4", spec_b;
    bool json = false;
};

nlohmann::json to_json(const Candidates& candidates) {
    nlohmann::json list = nlohmann::json::array();
    for (const kernels::Candidate& candidate : candidates) {
        list.push_back({{"kernel", candidate.kernel},
                        {"isa", isa_name(candidate.isa)},
                        {"chosen", candidate.chosen},
                        {"refusal", candidate.refusal}});
    }
    return list;
}

void add_rows(Rows& rows, const std::string& op, const Candidates& candidates) {
    for (const kernels::Candidate& candidate : candidates) {
        const bool accepts = candidate.refusal.empty();
        rows.push_back({op, std::string(candidate.kernel), std::string(isa_name(candidate.isa)),
                        candidate.chosen ? "runs here"
                        : accepts        ? "would do"
                                         : "no",
                        candidate.refusal});
    }
}

void show_kernels(const KernelsArguments& arguments) {
    const formats::QuantSpec a = formats::parse_spec(arguments.spec);
    const formats::QuantSpec b =
        arguments.spec_b.empty() ? a : formats::parse_spec(arguments.spec_b);
    for (const std::int64_t size : arguments.shape) {
        if (size < 1) {
            throw Error(ErrorCode::kUsage, fmt::format("--shape holds {}", size),
                        "sizes are at least 1");
        }
    }
    const train::GemmSupport gemm =
        train::gemm_support(a, b, arguments.shape[0], arguments.shape[1], arguments.shape[2]);
    const Candidates quantize = kernels::explain_quantize(a, false);
    const Candidates transposed = kernels::explain_quantize(a, true);
    const Candidates dequantize = kernels::explain_dequantize(a);
    if (arguments.json) {
        return print_json({{"a", formats::to_string(a)},
                           {"b", formats::to_string(b)},
                           {"shape", arguments.shape},
                           {"native", gemm.native},
                           {"gemm", to_json(gemm.candidates)},
                           {"quantize", to_json(quantize)},
                           {"quantize_transposed", to_json(transposed)},
                           {"dequantize", to_json(dequantize)}});
    }
    Rows rows{{"op", "kernel", "instructions", "", "reason"}};
    add_rows(rows, "gemm", gemm.candidates);
    add_rows(rows, "quantize", quantize);
    add_rows(rows, "quantize (transposed)", transposed);
    add_rows(rows, "dequantize", dequantize);
    print(fmt::format("D ({0} x {1}) = A ({0} x {2}, {3}) * B ({1} x {2}, {4})^T: {5}\n\n",
                      arguments.shape[0], arguments.shape[1], arguments.shape[2],
                      formats::to_string(a), formats::to_string(b),
                      gemm.native ? "native" : "emulated (decoded, then multiplied)"));
    print(table_text(rows));
}

}  // namespace

void add_inspect_kernels(CLI::App& inspect) {
    CLI::App* verb = inspect.add_subcommand(
        "kernels", "Which kernels would run here, and why the others would not");
    auto arguments = std::make_shared<KernelsArguments>();
    verb->add_option("--shape", arguments->shape, "M,N,K of D (M x N) = A (M x K) * B (N x K)^T")
        ->delimiter(',')
        ->expected(3)
        ->type_name("M,N,K")
        ->capture_default_str();
    verb->add_option("--spec", arguments->spec, "Spec of A (and of B)")->capture_default_str();
    verb->add_option("--spec-b", arguments->spec_b, "Spec of B where it differs");
    verb->add_flag("--json", arguments->json, "As JSON");
    verb->callback([arguments] { show_kernels(*arguments); });
}

}  // namespace subbyte::cli
