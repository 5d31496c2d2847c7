// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace subbyte {

// A folder that is filled under a temporary name and disappears again unless it is kept.
class TemporaryFolder {
public:
    // Makes `path`, in place of what an earlier process left there. Error kData.
    explicit TemporaryFolder(std::filesystem::path path);
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    const std::filesystem::path& path() const { return path_; }

    // Gives the folder the name `target`; false, with the folder still temporary, when something
    // other than an empty folder has that name or the system refuses.
    bool keep_as(const std::filesystem::path& target, std::error_code& error);

private:
    std::filesystem::path path_;
};

}  // namespace subbyte
