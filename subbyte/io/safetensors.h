// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "subbyte/core/file.h"
#include "subbyte/io/safetensors_header.h"

namespace subbyte::io {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A safetensors file (Hugging Face): 8 bytes header length, a JSON header, the raw tensors.
// Dtypes: safetensors_dtypes(). Nothing of the header is believed: all numbers are checked against
// each other and against the file before anything is allocated from them.
class SafetensorsFile {
public:
    // Reads and checks the header only. Error kData that names file, tensor and the numbers.
    static SafetensorsFile open(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return file_.path(); }
    const std::vector<TensorInfo>& tensors() const { return header_.tensors; }  // in file order
    const Metadata& metadata() const { return header_.metadata; }
    bool contains(const std::string& name) const { return index_.contains(name); }
    const TensorInfo& info(const std::string& name) const;  // Error kData: no such tensor

    // A new contiguous CPU tensor. F4 comes as Float4_e2m1fn_x2, whose last dimension is half as
    // long. Error kData: no such tensor, file cut short, or a BOOL byte that is neither 0 nor 1.
    at::Tensor load(const std::string& name) const;
    NamedTensors load_all() const;  // in file order

    // The stored bytes, whatever the dtype. `out` must have info(name).bytes() bytes (Error
    // kUsage).
    void read_bytes(const std::string& name, std::span<std::byte> out) const;

private:
    explicit SafetensorsFile(const std::filesystem::path& path);

    InputFile file_;
    SafetensorsHeader header_;
    std::map<std::string, std::size_t> index_;  // name -> entry of header_.tensors
    std::uint64_t data_begin_ = 0;
};

// An entry that is no torch tensor, such as packed 4-bit codes. Rows are contiguous.
struct RawTensor {
    std::string name;
    std::string dtype;  // a name of safetensors_dtypes()
    std::vector<std::int64_t> shape;
    std::span<const std::byte> bytes;
};

// Writes a safetensors file; the same content gives the same bytes, whatever the order of the
// entries. Tensors of any strides and device; they are copied one at a time where they are not
// contiguous on the CPU. The file appears as a whole: on any error the old file is kept and nothing
// is left behind. Error kUsage: undefined or sparse tensor, dtype without a safetensors name, name
// used twice or
// "__metadata__", raw bytes that do not fit dtype and shape. Error kData: disk full (with the bytes
// needed) and other refusals of the system.
WrittenFile save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                             const Metadata& metadata = {}, const std::vector<RawTensor>& raw = {});

}  // namespace subbyte::io
