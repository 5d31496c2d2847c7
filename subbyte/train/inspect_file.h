// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace subbyte::train {

// What a file or folder holds, by its content and not by its name: an object whose member "kind"
// is one of
//
//   safetensors   tensors (name, dtype, shape, bytes), metadata, parameters
//   npy           dtype, shape, elements
//   tokens        token shard: ids, vocabulary, fingerprints, the first ids
//   plan          method, fallback, layers with the recipe of each GEMM
//   statistics    what a planning measurement knows: step, loss, layers
//   checkpoint    step, files with bytes and checksums; everything was verified
//   model         a Hugging Face folder: its tensors
// Error kData: not there, damaged, or of no known kind.
nlohmann::ordered_json inspect_file(const std::filesystem::path& path);

}  // namespace subbyte::train
