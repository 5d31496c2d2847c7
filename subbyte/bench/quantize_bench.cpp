// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>

#include "subbyte/bench/report.h"
#include "subbyte/formats/spec.h"
#include "subbyte/ops/gaussian.h"
#include "subbyte/ops/quantized_tensor.h"

namespace subbyte::bench {

nlohmann::json bench_quantize(const std::string& text, std::int64_t rows, std::int64_t cols,
                              const Effort& effort) {
    check_sizes({{"rows", rows}, {"cols", cols}});
    const formats::QuantSpec spec = formats::parse_spec(text);
    const at::NoGradGuard no_grad;
    const ThreadScope threads(effort.threads);
    const at::Tensor x = ops::gaussian({rows, cols}, {1, 0, 0, 0});
    const ops::QuantizedTensor packed = ops::quantize(x, spec, {});
    // LibTorch has no block quantisation; its cast to BF16 and a copy are the measure.
    nlohmann::json json =
        report("quantize", contest({{"subbyte", [&] { ops::quantize(x, spec, {}); }},
                                    {"transposed", [&] { ops::quantize(x.t(), spec, {}); }},
                                    {"dequantize", [&] { ops::dequantize(packed); }},
                                    {"bf16", [&] { x.to(at::kBFloat16); }},
                                    {"fp32", [&] { x.clone(); }}},
                                   effort.least_rounds, effort.seconds));
    for (const auto* ours : {"vs_transposed", "vs_dequantize"}) json.erase(ours);
    json["spec"] = formats::to_string(spec);
    json["shape"] = {rows, cols};
    const double bytes = 4.0 * static_cast<double>(rows) * static_cast<double>(cols) +
                         static_cast<double>(packed.bytes());
    json["gb_per_second"] = 1e-9 * bytes / json["seconds"].get<double>();
    json["ns_per_element"] = 1e9 * json["seconds"].get<double>() /
                             (static_cast<double>(rows) * static_cast<double>(cols));
    return json;
}

}  // namespace subbyte::bench
