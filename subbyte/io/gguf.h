// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "subbyte/core/file.h"
#include "subbyte/io/ggml_types.h"
#include "subbyte/io/gguf_metadata.h"

namespace subbyte::io {

struct GgufTensor {
    std::string name;
    const GgmlType* type = nullptr;
    std::vector<std::int64_t> shape;   // as torch writes it: rows first; the file has it reversed
    std::uint64_t begin = 0, end = 0;  // bytes of the file

    std::int64_t values() const;
};

// A GGUF file (ggml's model format), versions 2 and 3, little-endian: key/value pairs, a table of
// tensors, their blocks. Nothing of the file is believed: counts, lengths, dimensions and offsets
// are checked against the size of the file before anything is allocated from them. Error kData that
// names file, key or tensor and the numbers: not GGUF, another version, big-endian, cut short, an
// unknown value or tensor type, a name used twice, tensors that overlap or leave the file, lists of
// lists.
class GgufFile {
public:
    static GgufFile open(const std::filesystem::path& path) { return GgufFile(path); }

    const std::filesystem::path& path() const { return file_.path(); }
    std::uint32_t version() const { return version_; }
    const GgufMetadata& metadata() const { return metadata_; }
    const std::vector<GgufTensor>& tensors() const { return tensors_; }  // in file order
    bool contains(const std::string& name) const { return index_.contains(name); }
    const GgufTensor& info(const std::string& name) const;  // Error kData: no such tensor

    // A new FP32 tensor. Error kData: no such tensor, or the file became shorter.
    at::Tensor load(const std::string& name) const;

private:
    explicit GgufFile(const std::filesystem::path& path);
    void place_tensors(std::uint64_t header_end);

    InputFile file_;
    std::uint32_t version_ = 0;
    GgufMetadata metadata_;
    std::vector<GgufTensor> tensors_;
    std::map<std::string, std::size_t> index_;  // name -> entry of tensors_
};

}  // namespace subbyte::io
