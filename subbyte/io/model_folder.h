// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "subbyte/io/safetensors.h"

namespace subbyte::io {

// The weights of a model folder as Hugging Face lays it out: model.safetensors, or the shards that
// model.safetensors.index.json lists. Only headers are read until a tensor is asked for.
class ModelFolder {
public:
    // Error kData: neither file is there, a shard is missing or damaged, index and shards disagree
    // about a name, or a shard lies outside of the folder.
    explicit ModelFolder(const std::filesystem::path& folder);

    std::vector<std::string> names() const;  // sorted
    bool contains(const std::string& name) const { return shard_of_.contains(name); }
    const TensorInfo& info(const std::string& name) const;  // Error kData: no such tensor
    at::Tensor load(const std::string& name) const;         // see SafetensorsFile::load()
    std::map<std::string, at::Tensor> load_all() const;

private:
    void open_index(const std::filesystem::path& path);
    const SafetensorsFile& shard(const std::string& name) const;

    std::filesystem::path folder_;
    std::vector<SafetensorsFile> shards_;
    std::map<std::string, std::size_t> shard_of_;  // tensor name -> entry of shards_
};

}  // namespace subbyte::io
