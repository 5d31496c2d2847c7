// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// subbyte quantize IN --compare S1,S2,...
#include "subbyte/cli/quantize_compare.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "subbyte/cli/output.h"
#include "subbyte/core/error.h"
#include "subbyte/formats/metrics.h"
#include "subbyte/io/model_folder.h"
#include "subbyte/io/npy.h"
#include "subbyte/io/safetensors.h"
#include "subbyte/ops/quantized_tensor.h"
#include "subbyte/train/quantize_file.h"

namespace subbyte::cli {
namespace {

struct Tensors {
    std::vector<std::string> names;  // sorted
    std::function<at::Tensor(const std::string&)> load;
};

bool is_npy(const std::filesystem::path& path) {
    char magic[6] = {};
    std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
    return std::string_view(magic, sizeof magic) == "\x93NUMPY";
}

Tensors open_tensors(const std::filesystem::path& path) {
    if (std::filesystem::is_directory(path)) {
        const auto folder = std::make_shared<io::ModelFolder>(path);
        return {folder->names(), [folder](const std::string& name) { return folder->load(name); }};
    }
    if (is_npy(path)) return {{"data"}, [path](const std::string&) { return io::read_npy(path); }};
    const auto file = std::make_shared<io::SafetensorsFile>(io::SafetensorsFile::open(path));
    Tensors tensors;
    for (const io::TensorInfo& info : file->tensors()) tensors.names.push_back(info.name);
    std::sort(tensors.names.begin(), tensors.names.end());
    tensors.load = [file](const std::string& name) { return file->load(name); };
    return tensors;
}

// What one spec did to one tensor, or to all of them together.
struct ComparedTensor {
    double error_squared = 0, source_squared = 0, saturated = 0, underflow = 0, bits = 0;
    double elements = 0;
    std::int64_t nonfinite = 0;

    void add(const ComparedTensor& other) {
        error_squared += other.error_squared;
        source_squared += other.source_squared;
        saturated += other.saturated;
        underflow += other.underflow;
        bits += other.bits;
        elements += other.elements;
        nonfinite += other.nonfinite;
    }
    double relative_error() const {
        return source_squared > 0 ? std::sqrt(error_squared / source_squared) : 0.0;
    }
    double share(double count) const { return elements > 0 ? count / elements : 0.0; }

    nlohmann::json json() const {
        const double error = relative_error();
        return {{"relative_error", error},
                // JSON has no infinity: null says that nothing was lost.
                {"sqnr_db", error > 0 ? nlohmann::json(-20 * std::log10(error)) : nullptr},
                {"saturated_share", share(saturated)},
                {"underflow_share", share(underflow)},
                {"bits_per_value", share(bits)},
                {"nonfinite", nonfinite}};
    }
};

ComparedTensor measure(const at::Tensor& matrix, const formats::QuantSpec& spec,
                       const NoiseAddress& noise) {
    const std::int64_t rows = matrix.size(0), cols = matrix.size(1);
    const ops::QuantizedTensor packed = ops::quantize(matrix, spec, noise);
    const at::Tensor decoded = ops::dequantize(packed).contiguous();
    const formats::MatrixView source{matrix.const_data_ptr<float>(), rows, cols, cols, 1};
    const formats::QuantizationError error =
        formats::measure_error(source, spec, packed.view(), decoded.const_data_ptr<float>());
    ComparedTensor outcome;
    outcome.elements = static_cast<double>(rows * cols);
    outcome.error_squared = error.error_norm * error.error_norm;
    outcome.source_squared = error.source_norm * error.source_norm;
    outcome.saturated = error.saturated_share * outcome.elements;
    outcome.underflow = error.underflow_share * outcome.elements;
    outcome.bits = formats::bits_per_value(spec, rows, cols) * outcome.elements;
    outcome.nonfinite = error.nonfinite;
    return outcome;
}

struct Line {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<ComparedTensor> outcomes;  // by spec; empty: not a floating tensor
};

void print_table(const std::vector<std::string>& names, const std::vector<Line>& lines,
                 const std::vector<ComparedTensor>& totals) {
    std::vector<std::vector<std::string>> rows{{"relative error", "shape"}};
    rows[0].insert(rows[0].end(), names.begin(), names.end());
    for (const Line& line : lines) {
        std::vector<std::string> row{line.name, fmt::format("[{}]", fmt::join(line.shape, ","))};
        for (const ComparedTensor& o : line.outcomes) {
            row.push_back(fmt::format("{:.6f}", o.relative_error()));
        }
        if (line.outcomes.empty()) row.emplace_back("skipped: not floating-point");
        rows.push_back(std::move(row));
    }
    const auto total = [&](const char* title, const auto& cell) {
        std::vector<std::string> row{title, ""};
        for (const ComparedTensor& o : totals) row.push_back(cell(o));
        rows.push_back(std::move(row));
    };
    const auto percent = [](double share) { return fmt::format("{:.4f}%", 100 * share); };
    total("total",
          [](const ComparedTensor& o) { return fmt::format("{:.6f}", o.relative_error()); });
    total("saturated", [&](const ComparedTensor& o) { return percent(o.share(o.saturated)); });
    total("underflow", [&](const ComparedTensor& o) { return percent(o.share(o.underflow)); });
    total("bits/value",
          [](const ComparedTensor& o) { return fmt::format("{:.4f}", o.share(o.bits)); });
    print(table_text(rows));
}

nlohmann::json by_spec(const std::vector<std::string>& names,
                       const std::vector<ComparedTensor>& outcomes) {
    nlohmann::json json = nlohmann::json::object();
    for (std::size_t i = 0; i < names.size(); ++i) json[names[i]] = outcomes[i].json();
    return json;
}

}  // namespace

void compare_specs(const std::string& in, const std::vector<std::string>& specs, std::uint64_t seed,
                   bool json) {
    std::vector<formats::QuantSpec> parsed;
    for (const std::string& text : specs) parsed.push_back(formats::parse_spec(text));
    const Tensors tensors = open_tensors(in);
    std::vector<Line> lines;
    std::vector<ComparedTensor> totals(specs.size());
    for (std::size_t i = 0; i < tensors.names.size(); ++i) {
        const at::Tensor tensor = tensors.load(tensors.names[i]);
        Line line{tensors.names[i], tensor.sizes().vec(), {}};
        if (train::is_floating(tensor.scalar_type())) {
            const std::int64_t cols = tensor.dim() == 0 ? 1 : tensor.size(-1);
            const std::int64_t rows = cols > 0 ? tensor.numel() / cols : 0;
            const at::Tensor matrix = tensor.to(at::kFloat).contiguous().view({rows, cols});
            const NoiseAddress noise{.seed = seed, .layer = static_cast<std::uint32_t>(i)};
            for (std::size_t s = 0; s < parsed.size(); ++s) {
                line.outcomes.push_back(measure(matrix, parsed[s], noise));
                totals[s].add(line.outcomes.back());
            }
        }
        lines.push_back(std::move(line));
    }
    if (!json) return print_table(specs, lines, totals);
    nlohmann::json listed = nlohmann::json::array();
    for (const Line& line : lines) {
        nlohmann::json entry{{"name", line.name}, {"shape", line.shape}};
        if (line.outcomes.empty()) {
            entry["skipped"] = "not a floating-point tensor";
        } else {
            entry["specs"] = by_spec(specs, line.outcomes);
        }
        listed.push_back(std::move(entry));
    }
    nlohmann::json meanings = nlohmann::json::object();
    for (std::size_t i = 0; i < specs.size(); ++i) {
        meanings[specs[i]] = formats::to_string(parsed[i]);
    }
    print_json({{"specs", meanings},
                {"seed", seed},
                {"tensors", listed},
                {"total", by_spec(specs, totals)}});
}

}  // namespace subbyte::cli
