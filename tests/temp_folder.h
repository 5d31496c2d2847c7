// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

namespace subbyte {

// A folder of its own for one test, removed at the end.
class TempFolder {
public:
    TempFolder() {
        // mkdtemp() puts letters of its own in place of the six at the end.
        std::string name = (std::filesystem::temp_directory_path() / "subbyte-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) {
            throw std::system_error(errno, std::generic_category(), name);
        }
        path_ = name;
    }
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;

    std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
    const std::filesystem::path& path() const { return path_; }

    std::filesystem::path write(const std::string& name, std::string_view content) const {
        std::ofstream(path_ / name, std::ios::binary) << content;
        return path_ / name;
    }
    std::string read(const std::string& name) const {
        std::stringstream content;
        content << std::ifstream(path_ / name, std::ios::binary).rdbuf();
        return std::move(content).str();
    }

private:
    std::filesystem::path path_;
};

}  // namespace subbyte
