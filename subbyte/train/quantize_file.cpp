// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/quantize_file.h"

#include <ATen/core/Tensor.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "subbyte/core/error.h"
#include "subbyte/formats/metrics.h"
#include "subbyte/io/safetensors.h"
#include "subbyte/ops/quantized_tensor.h"
#include "subbyte/train/tensor_source.h"

namespace subbyte::train {
namespace {

std::string dtype_name(const at::Tensor& tensor) {
    const io::SafetensorsDtype* dtype = io::find_dtype(tensor.scalar_type());
    return dtype != nullptr ? std::string(dtype->name)
                            : std::string(c10::toString(tensor.scalar_type()));
}

at::Tensor as_matrix(const at::Tensor& x) {
    const std::int64_t cols = x.dim() == 0 ? 1 : x.size(-1);
    const std::int64_t rows = cols > 0 ? x.numel() / cols : 0;
    return x.to(at::kFloat).contiguous().view({rows, cols});
}

bool is_floating(at::ScalarType type) {
    switch (type) {
        case at::kHalf:
        case at::kBFloat16:
        case at::kFloat:
        case at::kDouble:
        case at::kFloat8_e4m3fn:
        case at::kFloat8_e5m2: return true;
        default: return false;
    }
}

// One tensor under one spec.
struct Quantised {
    ops::QuantizedTensor packed;
    at::Tensor decoded;  // rows x cols
    formats::QuantizationError error;
};

Quantised quantise(const at::Tensor& matrix, const formats::QuantSpec& spec,
                   const NoiseAddress& noise) {
    Quantised result{ops::quantize(matrix, spec, noise), {}, {}};
    result.decoded = ops::dequantize(result.packed).contiguous();
    const std::int64_t rows = matrix.size(0), cols = matrix.size(1);
    const formats::MatrixView view{matrix.const_data_ptr<float>(), rows, cols, cols, 1};
    result.error = formats::measure_error(view, spec, result.packed.view(),
                                          result.decoded.const_data_ptr<float>());
    return result;
}

TensorReport line_of(const std::string& name, const at::Tensor& tensor) {
    TensorReport line;
    line.name = name;
    line.dtype = dtype_name(tensor);
    line.shape = tensor.sizes().vec();
    line.elements = tensor.numel();
    return line;
}

// Collects the lines of one spec and the sums that the line "total" is made of.
class ReportWriter {
public:
    explicit ReportWriter(const formats::QuantSpec& spec) : spec_(spec) {
        report_.total.name = "total";
    }

    void skip(TensorReport line) {
        line.skipped = "not a floating-point tensor";
        report_.tensors.push_back(std::move(line));
    }

    void add(TensorReport line, const formats::QuantizationError& error) {
        line.relative_error = error.relative_error;
        line.sqnr_db = error.sqnr_db;
        line.saturated_share = error.saturated_share;
        line.underflow_share = error.underflow_share;
        line.nonfinite = error.nonfinite;
        const double elements = double(line.elements);
        if (line.elements > 0) {
            const std::int64_t cols = line.shape.empty() ? 1 : line.shape.back();
            line.bits_per_value = formats::bits_per_value(spec_, line.elements / cols, cols);
        }
        error_squared_ += error.error_norm * error.error_norm;
        source_squared_ += error.source_norm * error.source_norm;
        saturated_ += error.saturated_share * elements;
        underflow_ += error.underflow_share * elements;
        bits_ += line.bits_per_value * elements;
        report_.total.elements += line.elements;
        report_.total.nonfinite += line.nonfinite;
        report_.tensors.push_back(std::move(line));
    }

    QuantizeReport finish() {
        TensorReport& total = report_.total;
        total.relative_error =
            source_squared_ > 0 ? std::sqrt(error_squared_) / std::sqrt(source_squared_) : 0;
        total.sqnr_db = total.relative_error > 0 ? -20 * std::log10(total.relative_error)
                                                 : std::numeric_limits<double>::infinity();
        if (total.elements > 0) {
            const double elements = double(total.elements);
            total.saturated_share = saturated_ / elements;
            total.underflow_share = underflow_ / elements;
            total.bits_per_value = bits_ / elements;
        }
        return std::move(report_);
    }

private:
    formats::QuantSpec spec_;
    QuantizeReport report_;
    double error_squared_ = 0, source_squared_ = 0, saturated_ = 0, underflow_ = 0, bits_ = 0;
};

void append(const std::string& name, const at::Tensor& tensor, const Quantised& quantised,
            io::NamedTensors& written) {
    const ops::QuantizedTensor& packed = quantised.packed;
    // bf16 and fp32 are held as such; on disk they are bytes like every other code.
    written.emplace_back(name + ".codes", packed.codes.contiguous().view(at::kByte));
    if (packed.scales.defined()) written.emplace_back(name + ".scales", packed.scales);
    if (packed.global_scale.defined()) {
        written.emplace_back(name + ".global_scale", packed.global_scale);
    }
    if (packed.signs.defined()) written.emplace_back(name + ".signs", packed.signs);
    written.emplace_back(name + ".dequantized", quantised.decoded.view(tensor.sizes()));
}

// Every tensor of `in` under every spec. `keep` gets what came out.
template <typename Keep>
std::vector<QuantizeReport> quantise_all(const TensorSource& source,
                                         const std::vector<formats::QuantSpec>& specs,
                                         std::uint64_t seed, Keep&& keep) {
    std::vector<ReportWriter> writers(specs.begin(), specs.end());
    for (std::size_t i = 0; i < source.entries.size(); ++i) {
        const std::string& name = source.entries[i].name;
        const at::Tensor tensor = source.entries[i].load();
        const bool floating = is_floating(tensor.scalar_type());
        const at::Tensor matrix = floating ? as_matrix(tensor) : at::Tensor();
        const NoiseAddress noise{.seed = seed, .layer = static_cast<std::uint32_t>(i)};
        for (std::size_t s = 0; s < specs.size(); ++s) {
            if (!floating) {
                writers[s].skip(line_of(name, tensor));
                continue;
            }
            const Quantised quantised = quantise(matrix, specs[s], noise);
            writers[s].add(line_of(name, tensor), quantised.error);
            keep(name, tensor, quantised);
        }
    }
    std::vector<QuantizeReport> reports;
    for (ReportWriter& writer : writers) reports.push_back(writer.finish());
    return reports;
}

}  // namespace

QuantizeReport quantize_file(const std::filesystem::path& in, const formats::QuantSpec& spec,
                             const std::filesystem::path& out, std::uint64_t seed) {
    if (std::filesystem::is_directory(in)) {
        throw Error(ErrorCode::kData, fmt::format("{} is a folder", in.string()),
                    "name a .safetensors or .npy file; folders can be compared (--compare)");
    }
    io::NamedTensors written;
    QuantizeReport report =
        quantise_all(open_tensors(in), {spec}, seed,
                     [&](const std::string& name, const at::Tensor& tensor,
                         const Quantised& quantised) { append(name, tensor, quantised, written); })
            .front();
    io::save_safetensors(out, written,
                         {{"spec", formats::to_string(spec)}, {"seed", std::to_string(seed)}});
    return report;
}

std::vector<QuantizeReport> compare_specs(const std::filesystem::path& in,
                                          const std::vector<formats::QuantSpec>& specs,
                                          std::uint64_t seed) {
    return quantise_all(open_tensors(in), specs, seed, [](const auto&...) {});
}

}  // namespace subbyte::train
