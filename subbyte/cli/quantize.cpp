// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte quantize IN --spec S --out OUT
// subbyte quantize IN --compare S1,S2,...
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "subbyte/cli/output.h"
#include "subbyte/cli/quantize_compare.h"
#include "subbyte/cli/verbs.h"
#include "subbyte/core/error.h"
#include "subbyte/train/quantize_file.h"

namespace subbyte::cli {
namespace {

struct QuantizeArguments {
    std::string in, spec, out;
    std::vector<std::string> compare;
    std::uint64_t seed = 0;
    bool json = false;
};

nlohmann::json to_json(const train::TensorReport& line) {
    nlohmann::json json = {{"name", line.name}, {"elements", line.elements}};
    if (!line.dtype.empty()) {
        json["dtype"] = line.dtype;
        json["shape"] = line.shape;
    }
    if (!line.skipped.empty()) {
        json["skipped"] = line.skipped;
    } else {
        json.update(errors_json(line));
    }
    return json;
}

std::vector<std::string> to_row(const train::TensorReport& line) {
    std::string shape = fmt::format("{} [{}]", line.dtype, fmt::join(line.shape, ","));
    if (line.dtype.empty()) shape = fmt::format("{} elements", line.elements);
    if (!line.skipped.empty()) return {line.name, shape, "skipped: " + line.skipped};
    return {line.name,
            shape,
            fmt::format("{:.6f}", line.relative_error),
            fmt::format("{:.2f}", line.sqnr_db),
            fmt::format("{:.4f}%", 100 * line.saturated_share),
            fmt::format("{:.4f}%", 100 * line.underflow_share),
            fmt::format("{:.4f}", line.bits_per_value),
            fmt::to_string(line.nonfinite)};
}

void run(const QuantizeArguments& arguments) {
    if (!arguments.compare.empty()) {
        if (!arguments.spec.empty() || !arguments.out.empty()) {
            throw Error(ErrorCode::kUsage, "--compare takes no --spec and no --out",
                        "it writes no file; name every spec in --compare");
        }
        return compare_specs(arguments.in, arguments.compare, arguments.seed, arguments.json);
    }
    if (arguments.spec.empty() || arguments.out.empty()) {
        throw Error(ErrorCode::kUsage,
                    arguments.spec.empty() ? "--spec is missing" : "--out is missing",
                    "give --spec and --out, or --compare with several specs");
    }
    const formats::QuantSpec spec = formats::parse_spec(arguments.spec);
    const train::QuantizeReport report =
        train::quantize_file(arguments.in, spec, arguments.out, arguments.seed);
    if (arguments.json) {
        nlohmann::json tensors = nlohmann::json::array();
        for (const train::TensorReport& line : report.tensors) tensors.push_back(to_json(line));
        return print_json({{"spec", formats::to_string(spec)},
                           {"seed", arguments.seed},
                           {"out", arguments.out},
                           {"tensors", tensors},
                           {"total", to_json(report.total)}});
    }
    std::vector<std::vector<std::string>> rows{{"tensor", "shape", "rel. error", "SQNR dB",
                                                "saturated", "underflow", "bits/value",
                                                "NaN, Inf"}};
    for (const train::TensorReport& line : report.tensors) rows.push_back(to_row(line));
    rows.push_back(to_row(report.total));
    print(fmt::format("spec {}\n{}", formats::to_string(spec), table_text(rows)));
}

}  // namespace

nlohmann::json errors_json(const train::TensorReport& line) {
    return {{"relative_error", line.relative_error},
            // JSON has no infinity: null says that nothing was lost.
            {"sqnr_db", std::isfinite(line.sqnr_db) ? nlohmann::json(line.sqnr_db) : nullptr},
            {"saturated_share", line.saturated_share},
            {"underflow_share", line.underflow_share},
            {"bits_per_value", line.bits_per_value},
            {"nonfinite", line.nonfinite}};
}

void add_quantize(CLI::App& program) {
    CLI::App* verb = program.add_subcommand(
        "quantize", "Cast the tensors of a file to a format and measure the error");
    auto arguments = std::make_shared<QuantizeArguments>();
    verb->add_option("IN", arguments->in,
                     ".safetensors or .npy file; with --compare also a model folder or checkpoint")
        ->required();
    verb->add_option("--spec", arguments->spec, "How to quantise, e.g. nvfp4 or e4m3:1x128:f32");
    verb->add_option("--out", arguments->out, "Result: codes, scales, dequantised (.safetensors)")
        ->type_name("FILE");
    verb->add_option("--compare", arguments->compare,
                     "Instead of --spec and --out: the error of each of these specs, tensor by "
                     "tensor")
        ->delimiter(',')
        ->type_name("S1,S2,...");
    verb->add_option("--seed", arguments->seed, "Seed of stochastic rounding")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    verb->add_flag("--json", arguments->json, "As JSON");
    verb->callback([arguments] { run(*arguments); });
}

}  // namespace subbyte::cli
