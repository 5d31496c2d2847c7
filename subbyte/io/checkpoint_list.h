// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "subbyte/io/checkpoint.h"

namespace subbyte::io {

// The entries of a folder in the order of their names. Error kData.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);

// The folders step_* of a run by step, with only their manifests read: `valid` means that the
// manifest is, and that it belongs to this step. Empty when the run has no checkpoints. Error
// kData.
std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& run);

}  // namespace subbyte::io
