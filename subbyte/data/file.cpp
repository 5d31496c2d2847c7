// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "subbyte/core/error.h"

namespace subbyte::data {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

std::string hint_for(int error) {
    switch (error) {
        case ENOENT: return "check the spelling; relative paths start at the working directory";
        case EACCES:
        case EPERM:
        case EROFS: return "check the permissions, or name another place";
        case ENOSPC:
        case EDQUOT:
        case EFBIG: return "free some space, or name a place on another disk";
        default: return {};
    }
}

// The name of a directory entry reaches the disk with its folder.
void sync_folder(const std::filesystem::path& folder) {
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    ::fsync(descriptor);
    ::close(descriptor);
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
    return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
    // Non-blocking, so that a pipe is refused instead of waited for.
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0) {
        const int error = errno;
        throw Error(ErrorCode::kData,
                    fmt::format("{}: cannot be read: {}", path.string(), reason(error)),
                    hint_for(error));
    }
    struct stat status = {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(descriptor_);
        const bool folder = S_ISDIR(status.st_mode);
        throw Error(ErrorCode::kData,
                    fmt::format("{}: is {}", path.string(),
                                folder ? "a folder, not a file" : "not a regular file"),
                    folder ? "name the files in it, one by one" : "copy its content to a file");
    }
    size_ = status.st_size;
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::int64_t offset, void* to, std::size_t size) const {
    auto* target = static_cast<char*>(to);
    for (std::size_t done = 0; done < size;) {
        const ssize_t got = ::pread(descriptor_, target + done, size - done,
                                    static_cast<off_t>(offset + static_cast<std::int64_t>(done)));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            throw Error(ErrorCode::kData, fmt::format("{}: reading {} bytes at byte {}: {}",
                                                      path_.string(), size, offset, reason(errno)));
        }
        if (got == 0) {
            throw Error(ErrorCode::kData,
                        fmt::format("{}: ends at byte {}, byte {} was expected", path_.string(),
                                    offset + static_cast<std::int64_t>(done),
                                    offset + static_cast<std::int64_t>(size)),
                        "something shortened the file while it was in use");
        }
        done += static_cast<std::size_t>(got);
    }
}

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path) {
    // Distinct in this process and between processes, so that two writers never share a file.
    static std::atomic<unsigned> counter{0};
    do {
        temporary_ = folder_of(path) /
                     fmt::format(".{}.{}-{}.tmp", path.filename().string(), ::getpid(), counter++);
        descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (descriptor_ < 0 && errno == EEXIST);
    if (descriptor_ < 0) fail("cannot be created");
}

OutputFile::~OutputFile() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
        ::unlink(temporary_.c_str());
    }
}

void OutputFile::write(const void* from, std::size_t size) {
    overwrite(size_, from, size);
    size_ += static_cast<std::int64_t>(size);
}

void OutputFile::overwrite(std::int64_t offset, const void* from, std::size_t size) {
    const auto* source = static_cast<const char*>(from);
    for (std::size_t done = 0; done < size;) {
        const ssize_t put = ::pwrite(descriptor_, source + done, size - done,
                                     static_cast<off_t>(offset + static_cast<std::int64_t>(done)));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) fail("cannot be written");
        done += static_cast<std::size_t>(put);
    }
}

void OutputFile::commit() {
    if (::fsync(descriptor_) != 0) fail("cannot be written");
    const int descriptor = descriptor_;
    descriptor_ = -1;
    const bool stored =
        ::close(descriptor) == 0 && std::rename(temporary_.c_str(), path_.c_str()) == 0;
    if (!stored) {
        const int error = errno;
        ::unlink(temporary_.c_str());
        errno = error;
        fail("cannot be written");
    }
    sync_folder(folder_of(path_));
}

void OutputFile::fail(const char* what) const {
    const int error = errno;
    throw Error(ErrorCode::kData, fmt::format("{}: {}: {}", path_.string(), what, reason(error)),
                hint_for(error));
}

std::string read_file(const std::filesystem::path& path, std::int64_t limit) {
    const InputFile file(path);
    if (file.size() > limit) {
        throw Error(ErrorCode::kData, fmt::format("{}: {} bytes are too many for what it should be "
                                                  "(at most {})",
                                                  path.string(), file.size(), limit));
    }
    std::string content(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, content.data(), content.size());
    return content;
}

void write_file(const std::filesystem::path& path, std::string_view content) {
    OutputFile file(path);
    file.write(content.data(), content.size());
    file.commit();
}

void make_folder(const std::filesystem::path& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
        throw Error(
            ErrorCode::kData,
            fmt::format("{}: the folder cannot be made: {}", folder.string(), error.message()),
            hint_for(error.value()));
    }
}

}  // namespace subbyte::data
