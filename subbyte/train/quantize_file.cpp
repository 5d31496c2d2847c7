// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/quantize_file.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <utility>

#include "subbyte/formats/metrics.h"
#include "subbyte/io/npy.h"
#include "subbyte/io/safetensors.h"
#include "subbyte/ops/quantized_tensor.h"

namespace subbyte::train {
namespace {

// A file of named tensors that are read one at a time.
struct Source {
    struct Entry {
        std::string name;
        std::function<at::Tensor()> load;
    };
    std::vector<Entry> entries;  // in name order
};

bool is_npy(const std::filesystem::path& path) {
    char magic[6] = {};
    std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
    return std::string_view(magic, sizeof magic) == "\x93NUMPY";
}

Source open_source(const std::filesystem::path& path) {
    Source source;
    if (is_npy(path)) {
        source.entries.push_back({"data", [path] { return io::read_npy(path); }});
        return source;
    }
    const auto file = std::make_shared<io::SafetensorsFile>(io::SafetensorsFile::open(path));
    for (const io::TensorInfo& info : file->tensors()) {
        source.entries.push_back(
            {info.name, [file, name = info.name] { return file->load(name); }});
    }
    std::sort(source.entries.begin(), source.entries.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return source;
}

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

// Sums over tensors, from which the line "total" is made.
struct Sums {
    double error_squared = 0, source_squared = 0, saturated = 0, underflow = 0, bits = 0;

    void add(const formats::QuantizationError& error, double elements, double bits_per_value) {
        error_squared += error.error_norm * error.error_norm;
        source_squared += error.source_norm * error.source_norm;
        saturated += error.saturated_share * elements;
        underflow += error.underflow_share * elements;
        bits += bits_per_value * elements;
    }

    void finish(TensorReport& total) const {
        total.relative_error =
            source_squared > 0 ? std::sqrt(error_squared) / std::sqrt(source_squared) : 0;
        total.sqnr_db = total.relative_error > 0 ? -20 * std::log10(total.relative_error)
                                                 : std::numeric_limits<double>::infinity();
        if (total.elements == 0) return;
        const double elements = double(total.elements);
        total.saturated_share = saturated / elements;
        total.underflow_share = underflow / elements;
        total.bits_per_value = bits / elements;
    }
};

// Quantises one tensor and appends what has to be written.
formats::QuantizationError quantize_tensor(const std::string& name, const at::Tensor& tensor,
                                           const formats::QuantSpec& spec,
                                           const NoiseAddress& noise, io::NamedTensors& written) {
    const at::Tensor matrix = as_matrix(tensor);
    const ops::QuantizedTensor packed = ops::quantize(matrix, spec, noise);
    const at::Tensor decoded = ops::dequantize(packed).contiguous();
    const std::int64_t rows = matrix.size(0), cols = matrix.size(1);
    const formats::MatrixView view{matrix.const_data_ptr<float>(), rows, cols, cols, 1};
    const formats::QuantizationError error =
        formats::measure_error(view, spec, packed.view(), decoded.const_data_ptr<float>());

    // bf16 and fp32 are held as such; on disk they are bytes like every other code.
    written.emplace_back(name + ".codes", packed.codes.contiguous().view(at::kByte));
    if (packed.scales.defined()) written.emplace_back(name + ".scales", packed.scales);
    if (packed.global_scale.defined()) {
        written.emplace_back(name + ".global_scale", packed.global_scale);
    }
    if (packed.signs.defined()) written.emplace_back(name + ".signs", packed.signs);
    written.emplace_back(name + ".dequantized", decoded.view(tensor.sizes()));
    return error;
}

}  // namespace

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

QuantizeReport quantize_file(const std::filesystem::path& in, const formats::QuantSpec& spec,
                             const std::filesystem::path& out, std::uint64_t seed) {
    QuantizeReport report;
    report.total.name = "total";
    Sums sums;
    io::NamedTensors written;
    const Source source = open_source(in);
    for (std::size_t i = 0; i < source.entries.size(); ++i) {
        const at::Tensor tensor = source.entries[i].load();
        TensorReport line;
        line.name = source.entries[i].name;
        line.dtype = dtype_name(tensor);
        line.shape = tensor.sizes().vec();
        line.elements = tensor.numel();
        if (!is_floating(tensor.scalar_type())) {
            line.skipped = "not a floating-point tensor";
            report.tensors.push_back(std::move(line));
            continue;
        }
        const NoiseAddress noise{.seed = seed, .layer = static_cast<std::uint32_t>(i)};
        const formats::QuantizationError error =
            quantize_tensor(line.name, tensor, spec, noise, written);
        const std::int64_t cols = tensor.dim() == 0 ? 1 : tensor.size(-1);
        line.relative_error = error.relative_error;
        line.sqnr_db = error.sqnr_db;
        line.saturated_share = error.saturated_share;
        line.underflow_share = error.underflow_share;
        line.nonfinite = error.nonfinite;
        if (line.elements > 0) {
            line.bits_per_value = formats::bits_per_value(spec, line.elements / cols, cols);
        }
        sums.add(error, double(line.elements), line.bits_per_value);
        report.total.elements += line.elements;
        report.total.nonfinite += line.nonfinite;
        report.tensors.push_back(std::move(line));
    }
    sums.finish(report.total);
    io::save_safetensors(out, written,
                         {{"spec", formats::to_string(spec)}, {"seed", std::to_string(seed)}});
    return report;
}

}  // namespace subbyte::train
