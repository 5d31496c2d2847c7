// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "subbyte/io/manifest.h"
#include "subbyte/io/safetensors.h"

namespace subbyte::io {

// <run>/checkpoints/step_00001200/ and <run>/checkpoints/latest -> the one saved last.
std::filesystem::path checkpoints_folder(const std::filesystem::path& run);
std::filesystem::path checkpoint_folder(const std::filesystem::path& run, std::int64_t step);

// Saves one checkpoint. The files go into a temporary folder beside the final one; commit() writes
// the manifest, syncs, and renames the folder, so that a checkpoint is there as a whole or not at
// all, also after a crash or kill -9 at any moment. Without commit(), or after an error, the
// temporary folder is removed and earlier checkpoints are as they were. Errors: kData when the disk
// is full or the system refuses something else (then destroy the writer); kUsage for a file name
// used twice or leading out of the folder.
class CheckpointWriter {
public:
    // Removes temporary folders that killed processes left. Error kUsage when step < 0 or when
    // another writer, of any process, is at work in this run.
    CheckpointWriter(const std::filesystem::path& run, std::int64_t step);
    ~CheckpointWriter();
    CheckpointWriter(const CheckpointWriter&) = delete;
    CheckpointWriter& operator=(const CheckpointWriter&) = delete;

    void add_tensors(const std::string& name, const NamedTensors& tensors,
                     const Metadata& metadata = {}, const std::vector<RawTensor>& raw = {});
    void add_json(const std::string& name, const nlohmann::ordered_json& value);
    void add_text(const std::string& name, std::string_view text);
    void add_copy(const std::string& name, const std::filesystem::path& source);

    // Makes it the checkpoint of its step, replacing an earlier one of the same step, and `latest`.
    // `info`: an object for the manifest, such as program version and world size. Gives the folder.
    std::filesystem::path commit(const nlohmann::json& info = nlohmann::json::object());

private:
    std::filesystem::path path_of(const std::string& name) const;

    std::filesystem::path run_, temporary_;
    Descriptor lock_;
    Manifest manifest_;
};

// Checks everything: the manifest, that its step is that of the folder's name (when it is named
// step_...), and presence, size and checksum of every file. Reads the whole checkpoint.
// Error kData that names folder, file and defect, with both numbers.
Manifest verify_checkpoint(const std::filesystem::path& folder);

struct CheckpointInfo {
    std::filesystem::path folder;
    std::int64_t step = 0;       // from the name of the folder
    std::int64_t sequence = -1;  // see Manifest; -1: the manifest cannot be read
    bool valid = false;
    std::string reason;  // the defect, when not valid
};

// The checkpoints of a run, fully verified, by step. Empty when there are none.
std::vector<CheckpointInfo> find_checkpoints(const std::filesystem::path& run);

// The valid checkpoint that was saved last; reads no more than it must. `warn` is called for every
// invalid one that could be newer. nullopt: there is no valid one.
std::optional<CheckpointInfo> latest_valid_checkpoint(
    const std::filesystem::path& run, const std::function<void(const CheckpointInfo&)>& warn);

// Removes all checkpoints but the last `keep_last` (>= 1) saved ones and those whose step is a
// multiple of `keep_every` (0: none). Folders without a readable manifest are left alone. Error
// kData when the system refuses; kUsage as for CheckpointWriter.
void prune_checkpoints(const std::filesystem::path& run, std::int64_t keep_last,
                       std::int64_t keep_every);

}  // namespace subbyte::io
