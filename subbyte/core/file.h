// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "subbyte/core/checksum.h"

namespace subbyte {

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

    // Fills `out`, or `size` bytes at `to`, from `offset`. Error kData when the file ends before.
    // Safe from several threads.
    void read(std::uint64_t offset, std::span<std::byte> out) const;
    void read(std::uint64_t offset, void* to, std::size_t size) const {
        read(offset, {static_cast<std::byte*>(to), size});
    }

    const std::filesystem::path& path() const { return path_; }
    std::uint64_t size() const { return size_; }  // bytes

private:
    std::filesystem::path path_;
    Descriptor fd_;
    std::uint64_t size_ = 0;
};

// The whole file. Error kData when it cannot be read or is larger than `most` bytes (checked before
// allocating).
std::string read_text(const std::filesystem::path& path,
                      std::uint64_t most = std::uint64_t{1} << 30);

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
    // Puts other bytes where some were written already. They do not enter the checksum.
    void overwrite(std::uint64_t offset, std::span<const std::byte> bytes);  // Error kData
    WrittenFile commit();  // once, at the end; Error kData

private:
    [[noreturn]] void fail_write(int error, std::size_t more) const;

    std::filesystem::path path_, temporary_;
    Descriptor fd_;
    std::uint64_t bytes_needed_, bytes_ = 0;
    Checksum checksum_;
};

// AtomicFile in one call.
WrittenFile write_text(const std::filesystem::path& path, std::string_view text);

// Makes the folder and its parents. Error kData.
void make_folder(const std::filesystem::path& folder);

// Writes all bytes at the position of `fd`. Returns 0 or the errno of the failure.
int write_all(int fd, std::span<const std::byte> bytes);

// Makes the entries of a folder (creations, renames, removals) survive a power cut. Error kData.
void sync_folder(const std::filesystem::path& folder);

// Error kData that says what the system refused: "<path>: cannot be <done>: <text of errno>", e.g.
// done = "read". Without a `hint` one that suits the errno.
[[noreturn]] void fail_system(std::string_view done, const std::filesystem::path& path, int error,
                              std::string hint = {});

}  // namespace subbyte
