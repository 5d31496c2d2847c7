// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "subbyte/core/error.h"
#include "subbyte/io/checkpoint_list.h"

namespace subbyte::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step_";

// The step that a folder's name says; nullopt for any other name.
std::optional<std::int64_t> step_of(const fs::path& folder) {
    const std::string name = folder.filename().string();
    if (!name.starts_with(kPrefix)) return std::nullopt;
    const std::string_view digits = std::string_view(name).substr(kPrefix.size());
    std::int64_t step = -1;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), step);
    if (end.ec != std::errc() || end.ptr != digits.data() + digits.size() || step < 0) {
        return std::nullopt;
    }
    return step;
}

[[noreturn]] void fail(const fs::path& folder, const std::string& message) {
    throw Error(ErrorCode::kData, fmt::format("checkpoint '{}': {}", folder.string(), message),
                "use an earlier checkpoint");
}

// The manifest, checked against the name of the folder it lies in.
Manifest manifest_of(const fs::path& folder) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) fail(folder, "there is no such folder");
    if (list_folder(folder).empty()) fail(folder, "the folder is empty");
    if (!fs::exists(folder / Manifest::kFileName, error)) {
        fail(folder, fmt::format("{} is missing, so saving was not finished", Manifest::kFileName));
    }
    Manifest manifest = read_manifest(folder);
    const std::optional<std::int64_t> step = step_of(folder);
    if (step && *step != manifest.step) {
        fail(folder, fmt::format("{} belongs to step {}, the folder is named for step {}",
                                 Manifest::kFileName, manifest.step, *step));
    }
    return manifest;
}

std::uint64_t checksum_of_file(const InputFile& file) {
    Checksum checksum;
    std::vector<std::byte> buffer(std::min<std::uint64_t>(file.size(), 1 << 20));
    for (std::uint64_t at = 0; at < file.size(); at += buffer.size()) {
        const auto piece = std::span(buffer).first(std::min(file.size() - at, buffer.size()));
        file.read(at, piece);
        checksum.update(piece);
    }
    return checksum.value();
}

void verify(CheckpointInfo& info) {
    try {
        verify_checkpoint(info.folder);
        info.valid = true;
    } catch (const Error& error) {
        info.valid = false;
        info.reason = error.what();
    }
}

}  // namespace

fs::path checkpoints_folder(const fs::path& run) { return run / "checkpoints"; }

fs::path checkpoint_folder(const fs::path& run, std::int64_t step) {
    return checkpoints_folder(run) / fmt::format("{}{:08}", kPrefix, step);
}

std::vector<fs::path> list_folder(const fs::path& folder) {
    std::vector<fs::path> paths;
    try {
        for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
            paths.push_back(entry.path());
        }
    } catch (const fs::filesystem_error& error) {
        fail_system("listed", folder, error.code().value());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
}

std::vector<CheckpointInfo> list_checkpoints(const fs::path& run) {
    std::vector<CheckpointInfo> all;
    std::error_code error;
    if (!fs::exists(checkpoints_folder(run), error)) return all;
    for (const fs::path& folder : list_folder(checkpoints_folder(run))) {
        const std::optional<std::int64_t> step = step_of(folder);
        if (!step) continue;
        CheckpointInfo info;
        info.folder = folder;
        info.step = *step;
        try {
            info.sequence = manifest_of(folder).sequence;
            info.valid = true;
        } catch (const Error& defect) {
            info.reason = defect.what();
        }
        all.push_back(std::move(info));
    }
    std::stable_sort(all.begin(), all.end(), [](const CheckpointInfo& a, const CheckpointInfo& b) {
        return a.step < b.step;
    });
    return all;
}

Manifest verify_checkpoint(const fs::path& folder) {
    Manifest manifest = manifest_of(folder);
    for (const auto& [name, expected] : manifest.files) {
        std::error_code error;
        if (!fs::exists(folder / name, error)) fail(folder, fmt::format("{} is missing", name));
        const InputFile file(folder / name);
        if (file.size() != expected.bytes) {
            fail(folder, fmt::format("{} has {} bytes, the manifest says {}", name, file.size(),
                                     expected.bytes));
        }
        const std::uint64_t found = checksum_of_file(file);
        if (found != expected.checksum) {
            fail(folder, fmt::format("{} has checksum {:016x}, the manifest says {:016x}: it was "
                                     "damaged or belongs to another step",
                                     name, found, expected.checksum));
        }
    }
    return manifest;
}

std::vector<CheckpointInfo> find_checkpoints(const fs::path& run) {
    std::vector<CheckpointInfo> all = list_checkpoints(run);
    for (CheckpointInfo& info : all) {
        if (info.valid) verify(info);
    }
    return all;
}

std::optional<CheckpointInfo> latest_valid_checkpoint(
    const fs::path& run, const std::function<void(const CheckpointInfo&)>& warn) {
    std::vector<CheckpointInfo> all = list_checkpoints(run);
    // Newest first; those of unknown age last.
    std::stable_sort(all.begin(), all.end(), [](const CheckpointInfo& a, const CheckpointInfo& b) {
        return a.sequence > b.sequence;
    });
    std::optional<CheckpointInfo> found;
    for (CheckpointInfo& info : all) {
        if (info.valid && !found) {
            verify(info);
            if (info.valid) {
                found = info;
            } else {
                warn(info);
            }
        } else if (!info.valid && (!found || info.step > found->step)) {
            warn(info);
        }
    }
    return found;
}

}  // namespace subbyte::io
