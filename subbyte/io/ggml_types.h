// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace subbyte::io {

// How GGUF files store the values of a tensor: in blocks of a fixed number of values and bytes
// (ggml, ggml-common.h). The last dimension is a whole number of blocks.
struct GgmlType {
    std::uint32_t id;       // number in the file
    std::string_view name;  // "Q4_1"
    int values;             // per block
    int bytes;              // per block
    // One block to FP32: `block` has `bytes` bytes, `out` takes `values` numbers.
    void (*dequantize)(const std::uint8_t* block, float* out);

    double bits_per_value() const { return 8.0 * bytes / values; }
};

// F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K; nullptr for every other number.
const GgmlType* find_ggml_type(std::uint32_t id);
std::vector<std::string> ggml_type_names();

// All blocks of a tensor in FP32. Computed as ggml does: scale times code, then plus the minimum,
// each rounded to FP32. The sizes must belong together (Error kUsage).
void dequantize(const GgmlType& type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace subbyte::io
