// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/core/temporary_folder.h"

#include <system_error>
#include <utility>

#include "subbyte/core/file.h"

namespace subbyte {

TemporaryFolder::TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);  // of a process with our number, that was killed
    make_folder(path_);
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

bool TemporaryFolder::keep_as(const std::filesystem::path& target, std::error_code& error) {
    std::filesystem::rename(path_, target, error);
    if (error) return false;
    path_.clear();
    return true;
}

}  // namespace subbyte
