// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace subbyte::train {

// Named tensors of a file or folder, read one at a time.
struct TensorSource {
    struct Entry {
        std::string name;
        std::function<at::Tensor()> load;
    };
    std::vector<Entry> entries;  // in name order
};

// A .safetensors file, a .npy file (one tensor named "data"), or the weights of a model folder or
// checkpoint. Error kData.
TensorSource open_tensors(const std::filesystem::path& path);

}  // namespace subbyte::train
