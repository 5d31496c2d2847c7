// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "subbyte/core/error.h"

namespace subbyte {
namespace {

bool is_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

std::string hint_for(int error) {
    if (is_full(error)) return "free some space, or name a place on another disk";
    switch (error) {
        case ENOENT: return "check the spelling; relative paths start at the working directory";
        case EACCES:
        case EPERM:
        case EROFS: return "check the permissions, or name another place";
        default: return {};
    }
}

// The folder that holds `path`; "." for a bare name.
std::filesystem::path folder_of(const std::filesystem::path& path) {
    return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
    if (this != &other) {
        reset();
        fd_ = other.release();
    }
    return *this;
}

int Descriptor::release() { return std::exchange(fd_, -1); }

void Descriptor::reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

void fail_system(std::string_view done, const std::filesystem::path& path, int error,
                 std::string hint) {
    throw Error(ErrorCode::kData,
                fmt::format("{}: cannot be {}: {}", path.string(), done,
                            std::generic_category().message(error)),
                hint.empty() ? hint_for(error) : std::move(hint));
}

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
    // O_NONBLOCK: a FIFO must not block us before we can refuse it.
    fd_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd_.get() < 0) fail_system("read", path, errno);
    struct stat status {};
    if (::fstat(fd_.get(), &status) != 0) fail_system("read", path, errno);
    if (!S_ISREG(status.st_mode)) {
        throw Error(
            ErrorCode::kData,
            fmt::format("{}: is {}", path.string(),
                        S_ISDIR(status.st_mode) ? "a folder, not a file" : "not a regular file"),
            S_ISDIR(status.st_mode) ? "name a file in it" : "copy its content to a file");
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
    std::size_t done = 0;
    while (done < out.size()) {
        const ssize_t got = ::pread(fd_.get(), out.data() + done, out.size() - done,
                                    static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail_system("read", path_, errno);
        if (got == 0) {
            throw Error(ErrorCode::kData,
                        fmt::format("{}: ends at byte {}, bytes up to {} were expected",
                                    path_.string(), offset + done, offset + out.size()),
                        "the file was cut short: make or fetch it again");
        }
        done += static_cast<std::size_t>(got);
    }
}

std::string read_text(const std::filesystem::path& path, std::uint64_t most) {
    const InputFile file(path);
    if (file.size() > most) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: has {} bytes, at most {} are expected", path.string(),
                                file.size(), most),
                    "check that this is the right file");
    }
    std::string text(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
}

int write_all(int fd, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t done = ::write(fd, bytes.data(), bytes.size());
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return errno;
        bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
    return 0;
}

void sync_folder(const std::filesystem::path& folder) {
    const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) fail_system("opened", folder, errno);
    // EINVAL: the file system has nothing to sync for a folder.
    if (::fsync(fd.get()) != 0 && errno != EINVAL) fail_system("synced", folder, errno);
}

AtomicFile::AtomicFile(const std::filesystem::path& path, std::uint64_t bytes_needed)
    : path_(path), bytes_needed_(bytes_needed) {
    // A name of this process that nobody has; the counter passes over what a killed process left.
    for (int attempt = 0; fd_.get() < 0; ++attempt) {
        temporary_ = folder_of(path) /
                     fmt::format(".{}.tmp-{}-{}", path.filename().string(), ::getpid(), attempt);
        fd_ = Descriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
        if (fd_.get() < 0 && (errno != EEXIST || attempt == 10000)) {
            fail_system("created", path, errno,
                        is_full(errno) ? "" : "check that the folder exists and is writable");
        }
    }
}

AtomicFile::~AtomicFile() {
    if (fd_.get() >= 0) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::write(std::span<const std::byte> bytes) {
    if (const int error = write_all(fd_.get(), bytes)) fail_write(error, bytes.size());
    bytes_ += bytes.size();
    checksum_.update(bytes);
}

void AtomicFile::overwrite(std::uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t done =
            ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) fail_write(errno, 0);
        bytes = bytes.subspan(static_cast<std::size_t>(done));
        offset += static_cast<std::uint64_t>(done);
    }
}

void AtomicFile::fail_write(int error, std::size_t more) const {
    if (!is_full(error)) fail_system("written", path_, error);
    throw Error(ErrorCode::kData,
                fmt::format("{}: cannot be written: {}; {} bytes are needed", path_.string(),
                            std::generic_category().message(error),
                            bytes_needed_ > 0 ? bytes_needed_ : bytes_ + more),
                "free space on this disk, or write somewhere else; what was there before is "
                "unchanged");
}

WrittenFile AtomicFile::commit() {
    // fsync is where a full disk may show up late.
    if (::fsync(fd_.get()) != 0) fail_system("written", path_, errno);
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_system("created", path_, errno);
    fd_.reset();
    sync_folder(folder_of(path_));
    return {bytes_, checksum_.value()};
}

WrittenFile write_text(const std::filesystem::path& path, std::string_view text) {
    AtomicFile file(path, text.size());
    file.write(text);
    return file.commit();
}

void make_folder(const std::filesystem::path& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) fail_system("created", folder, error.value());
}

}  // namespace subbyte
