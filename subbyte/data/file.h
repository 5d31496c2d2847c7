// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace subbyte::data {

// A regular file opened for reading. All errors are Error kData with the path in the message.
class InputFile {
public:
    explicit InputFile(const std::filesystem::path& path);
    ~InputFile();
    InputFile(const InputFile&) = delete;
    InputFile& operator=(const InputFile&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::int64_t size() const { return size_; }  // bytes, when it was opened

    // Reads `size` bytes at byte `offset`; any thread. Error when the file has become shorter.
    void read(std::int64_t offset, void* to, std::size_t size) const;

private:
    std::filesystem::path path_;
    int descriptor_ = -1;
    std::int64_t size_ = 0;
};

// A file that appears complete or not at all: written under a temporary name in the same folder,
// synced to the disk and renamed by commit(). Without commit() nothing is left behind. All errors
// (disk full, no permission) are Error kData.
class OutputFile {
public:
    explicit OutputFile(const std::filesystem::path& path);
    ~OutputFile();
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    void write(const void* from, std::size_t size);  // at the end
    void overwrite(std::int64_t offset, const void* from, std::size_t size);
    void commit();

private:
    [[noreturn]] void fail(const char* what) const;

    std::filesystem::path path_, temporary_;
    int descriptor_ = -1;
    std::int64_t size_ = 0;
};

// The whole file, which must not be larger than `limit` bytes (checked before allocating).
std::string read_file(const std::filesystem::path& path, std::int64_t limit);

// OutputFile in one call.
void write_file(const std::filesystem::path& path, std::string_view content);

// Makes the folder and its parents. Error kData when that is impossible.
void make_folder(const std::filesystem::path& folder);

}  // namespace subbyte::data
