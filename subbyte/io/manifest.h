// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "subbyte/core/file.h"

namespace subbyte::io {

// manifest.json, the last file of a checkpoint: a folder without a valid one is no checkpoint.
struct Manifest {
    static constexpr const char* kFileName = "manifest.json";
    static constexpr std::int64_t kVersion = 1;  // of the format; a newer one is refused

    std::int64_t step = 0;
    // Counts the checkpoints of a run in the order of saving. After a roll-back to an earlier step
    // the highest step is not the newest state; this number is.
    std::int64_t sequence = 0;
    std::map<std::string, WrittenFile> files;        // by name, without the manifest itself
    nlohmann::json info = nlohmann::json::object();  // what the caller adds: program, world size
};

// Error kData: see AtomicFile.
void write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

// Reads and checks the manifest alone (it carries a checksum of itself). Error kData that names the
// folder and the defect.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace subbyte::io
