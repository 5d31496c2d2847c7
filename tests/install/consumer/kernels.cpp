// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <vector>

#include "subbyte/formats/metrics.h"
#include "subbyte/kernels/quantize/quantize.h"

int main() {
    using namespace subbyte;
    const formats::QuantSpec spec = formats::parse_spec("fp4");
    std::vector<float> values(128 * 128), decoded(values.size()), scales(128);
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(noise_bits16({.seed = 1}, i)) / 65536.0f - 0.5f;
    }
    const formats::MatrixView source{values.data(), 128, 128, 128};
    std::vector<std::uint8_t> codes(128 * formats::row_bytes(spec, 128));
    const formats::PackedView packed{.codes = codes.data(), .scales_f32 = scales.data()};
    kernels::quantize(source, spec, {}, packed);
    kernels::dequantize(packed, spec, 128, 128, decoded.data());
    const auto error = formats::measure_error(source, spec, packed, decoded.data());
    std::printf("fp4 error %.4f\n", error.relative_error);
}
