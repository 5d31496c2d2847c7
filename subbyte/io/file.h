// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "subbyte/io/checksum.h"

namespace subbyte::io {

// Owner of a file descriptor; -1 when empty.
class Descriptor {
public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}
    ~Descriptor() { reset(); }
    Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
    Descriptor& operator=(Descriptor&& other) noexcept;
    int get() const { return fd_; }
    int release();
    void reset();

private:
    int fd_;
};

// A regular file opened for reading. Reads go through the descriptor and not through a memory map:
// a file that shrinks under us is an Error and not a SIGBUS, and its pages do not count as our
// memory.
class InputFile {
public:
    explicit InputFile(const std::filesystem::path& path);  // Error kData

    // Fills `out` from `offset`. Error kData when the file ends before. Safe from several threads.
    void read(std::uint64_t offset, std::span<std::byte> out) const;

    const std::filesystem::path& path() const { return path_; }
    std::uint64_t size() const { return size_; }  // bytes

private:
    std::filesystem::path path_;
    Descriptor fd_;
    std::uint64_t size_ = 0;
};

// The whole file. Error kData when it cannot be read or is larger than 1 GiB.
std::string read_text(const std::filesystem::path& path);

// What a finished file holds.
struct WrittenFile {
    std::uint64_t bytes = 0;
    std::uint64_t checksum = 0;  // XXH64 of the content
};

// A file that appears under its name as a whole or not at all. It is written under a temporary name
// in the same folder; commit() syncs it and renames it over whatever had the name. Without
// commit(), or after an error, the temporary file is removed and the old file stays.
class AtomicFile {
public:
    // `bytes_needed` (0: unknown) is the final size, told when the disk is full.
    explicit AtomicFile(const std::filesystem::path& path, std::uint64_t bytes_needed = 0);
    ~AtomicFile();
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;

    void write(std::span<const std::byte> bytes);  // Error kData
    void write(std::string_view text);
    WrittenFile commit();  // once, at the end; Error kData

private:
    std::filesystem::path path_, temporary_;
    Descriptor fd_;
    std::uint64_t bytes_needed_, bytes_ = 0;
    Checksum checksum_;
};

// Writes all bytes at the position of `fd`. Returns 0 or the errno of the failure.
int write_all(int fd, std::span<const std::byte> bytes);

// Makes the entries of a folder (creations, renames, removals) survive a power cut. Error kData.
void sync_folder(const std::filesystem::path& folder);

// Error kData that says what the system refused: "cannot <action> '<path>': <text of errno>".
[[noreturn]] void fail_system(std::string_view action, const std::filesystem::path& path, int error,
                              const std::string& hint = {});

}  // namespace subbyte::io
