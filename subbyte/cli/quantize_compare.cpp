// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte quantize IN --compare S1,S2,...
#include "subbyte/cli/quantize_compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "subbyte/cli/output.h"
#include "subbyte/train/quantize_file.h"

namespace subbyte::cli {
namespace {

using Reports = std::vector<train::QuantizeReport>;  // one per spec, the same tensors in each

void print_table(const std::vector<std::string>& specs, const Reports& reports) {
    std::vector<std::vector<std::string>> rows{{"relative error", "shape"}};
    rows[0].insert(rows[0].end(), specs.begin(), specs.end());
    for (std::size_t i = 0; i < reports[0].tensors.size(); ++i) {
        const train::TensorReport& first = reports[0].tensors[i];
        std::vector<std::string> row{first.name, fmt::format("[{}]", fmt::join(first.shape, ","))};
        if (!first.skipped.empty()) {
            row.emplace_back("skipped: not floating-point");
        } else {
            for (const train::QuantizeReport& report : reports) {
                row.push_back(fmt::format("{:.6f}", report.tensors[i].relative_error));
            }
        }
        rows.push_back(std::move(row));
    }
    const auto total = [&](const char* title, const auto& cell) {
        std::vector<std::string> row{title, ""};
        for (const train::QuantizeReport& report : reports) row.push_back(cell(report.total));
        rows.push_back(std::move(row));
    };
    using Total = const train::TensorReport&;
    const auto percent = [](double share) { return fmt::format("{:.4f}%", 100 * share); };
    total("total", [](Total t) { return fmt::format("{:.6f}", t.relative_error); });
    total("saturated", [&](Total t) { return percent(t.saturated_share); });
    total("underflow", [&](Total t) { return percent(t.underflow_share); });
    total("bits/value", [](Total t) { return fmt::format("{:.4f}", t.bits_per_value); });
    print(table_text(rows));
}

template <typename Line>
nlohmann::json by_spec(const std::vector<std::string>& specs, const Reports& reports, Line line) {
    nlohmann::json json = nlohmann::json::object();
    for (std::size_t s = 0; s < specs.size(); ++s) json[specs[s]] = errors_json(line(reports[s]));
    return json;
}

}  // namespace

void compare_specs(const std::string& in, const std::vector<std::string>& specs, std::uint64_t seed,
                   bool json) {
    std::vector<formats::QuantSpec> parsed;
    for (const std::string& text : specs) parsed.push_back(formats::parse_spec(text));
    const Reports reports = train::compare_specs(in, parsed, seed);
    if (!json) return print_table(specs, reports);
    nlohmann::json listed = nlohmann::json::array();
    for (std::size_t i = 0; i < reports[0].tensors.size(); ++i) {
        const train::TensorReport& first = reports[0].tensors[i];
        nlohmann::json entry{{"name", first.name}, {"shape", first.shape}};
        if (!first.skipped.empty()) {
            entry["skipped"] = first.skipped;
        } else {
            entry["specs"] = by_spec(specs, reports,
                                     [i](const train::QuantizeReport& r) { return r.tensors[i]; });
        }
        listed.push_back(std::move(entry));
    }
    nlohmann::json meanings = nlohmann::json::object();
    for (std::size_t s = 0; s < specs.size(); ++s) {
        meanings[specs[s]] = formats::to_string(parsed[s]);
    }
    print_json({{"specs", meanings},
                {"seed", seed},
                {"tensors", listed},
                {"total",
                 by_spec(specs, reports, [](const train::QuantizeReport& r) { return r.total; })}});
}

}  // namespace subbyte::cli
