// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace subbyte::io {

// An element type of the safetensors format.
struct SafetensorsDtype {
    std::string_view name;  // as in the header: "BF16"
    int bits;               // of one element
    at::ScalarType type;    // how LibTorch holds it; F4: two elements per torch element
};

// All supported types; the order is that of the files: tensors of a later type come first, which
// keeps every tensor aligned.
const std::vector<SafetensorsDtype>& safetensors_dtypes();

// nullptr when there is no such type.
const SafetensorsDtype* find_dtype(std::string_view name);
const SafetensorsDtype* find_dtype(at::ScalarType type);

// One entry of the header.
struct TensorInfo {
    std::string name;
    std::string dtype;                // a name of safetensors_dtypes()
    std::vector<std::int64_t> shape;  // counts elements, also for F4
    std::uint64_t begin = 0;          // range of bytes, counted from the end of the header
    std::uint64_t end = 0;

    std::uint64_t bytes() const { return end - begin; }
};

using Metadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
    std::vector<TensorInfo> tensors;  // in the order of their bytes
    Metadata metadata;
};

// Number of bytes that a tensor occupies. Error kData that begins with `where` when a dimension is
// negative, when there are more than 64 or their product leaves 63 bits, or when an F4 row is not a
// whole number of bytes.
std::uint64_t storage_bytes(const SafetensorsDtype& dtype, const std::vector<std::int64_t>& shape,
                            const std::string& where);

// Reads and checks a header: `text` is its JSON with padding, `data_bytes` what follows it in the
// file. Accepts exactly what the format allows: every byte of the data belongs to one tensor, every
// range fits its dtype and shape. Error kData that begins with `file` and says tensor and both
// numbers.
SafetensorsHeader parse_header(std::string_view text, std::uint64_t data_bytes,
                               const std::string& file);

// The header with its length in front, padded with spaces to a multiple of 8 bytes. Sorts `tensors`
// into the order of the file and sets their ranges. Error kUsage for a name that is not UTF-8.
std::string make_header(std::vector<TensorInfo>& tensors, const Metadata& metadata);

}  // namespace subbyte::io
