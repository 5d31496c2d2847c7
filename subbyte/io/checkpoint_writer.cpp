// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "subbyte/core/error.h"
#include "subbyte/io/checkpoint.h"
#include "subbyte/io/checkpoint_list.h"
#include "subbyte/io/json_file.h"

namespace subbyte::io {
namespace {

namespace fs = std::filesystem;

// Everything under this name is rubbish unless the one who made it holds the lock.
constexpr const char* kTemporary = ".tmp-";

void remove_tree(const fs::path& path) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) fail_system("removed", path, error.value(), "remove it by hand");
}

void rename_path(const fs::path& from, const fs::path& to) {
    if (::rename(from.c_str(), to.c_str()) != 0) fail_system("put in place", to, errno);
}

// The lock of a run's checkpoints; the system releases it when the process ends, however it ends.
Descriptor lock_folder(const fs::path& folder) {
    Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) fail_system("opened", folder, errno);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
    if (errno == EWOULDBLOCK) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("another checkpoint is being saved in '{}'", folder.string()),
                    "give every run a folder of its own");
    }
    if (errno == ENOLCK || errno == EOPNOTSUPP) return fd;  // a file system without locks
    fail_system("locked", folder, errno);
}

void remove_temporaries(const fs::path& folder) {
    for (const fs::path& path : list_folder(folder)) {
        if (path.filename().string().starts_with(kTemporary)) remove_tree(path);
    }
}

// `from` takes the name `to`. A folder that has it is exchanged in one step, so that there is no
// moment without a checkpoint of that name.
void publish(const fs::path& from, const fs::path& to) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
    if (errno == EEXIST) {
        if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return;
    }
    if (errno != EINVAL && errno != ENOSYS) fail_system("put in place", to, errno);
    // A file system without these: move the old one away first.
    std::error_code ignored;  // if it cannot be looked at, the rename below says why
    if (fs::exists(to, ignored)) {
        rename_path(to, to.parent_path() / fmt::format("{}old-{}", kTemporary, ::getpid()));
    }
    rename_path(from, to);
}

void point_latest(const fs::path& folder, const std::string& target) {
    const fs::path link = folder / fmt::format("{}latest-{}", kTemporary, ::getpid());
    if (::symlink(target.c_str(), link.c_str()) != 0) fail_system("created", link, errno);
    rename_path(link, folder / "latest");
}

}  // namespace

CheckpointWriter::CheckpointWriter(const fs::path& run, std::int64_t step) : run_(run) {
    if (step < 0) throw Error(ErrorCode::kUsage, fmt::format("checkpoint: step {} < 0", step));
    const fs::path folder = checkpoints_folder(run);
    make_folder(folder);
    lock_ = lock_folder(folder);
    remove_temporaries(folder);
    manifest_.step = step;
    for (const CheckpointInfo& earlier : list_checkpoints(run)) {
        manifest_.sequence = std::max(manifest_.sequence, earlier.sequence + 1);
    }
    const std::string name = checkpoint_folder(run, step).filename().string();
    temporary_ = folder / fmt::format("{}{}-{}", kTemporary, name, ::getpid());
    make_folder(temporary_);
}

CheckpointWriter::~CheckpointWriter() {
    std::error_code ignored;  // what stays is removed by the next writer
    if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

fs::path CheckpointWriter::path_of(const std::string& name) const {
    const bool plain = fs::path(name).filename() == name && name != "." && name != "..";
    if (!plain || name.empty() || name == Manifest::kFileName || manifest_.files.contains(name)) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("checkpoint: '{}' cannot be the name of {} file", name,
                                manifest_.files.contains(name) ? "another" : "a"),
                    "use plain names, each once");
    }
    return temporary_ / name;
}

void CheckpointWriter::add_tensors(const std::string& name, const NamedTensors& tensors,
                                   const Metadata& metadata, const std::vector<RawTensor>& raw) {
    const fs::path path = path_of(name);
    manifest_.files[name] = save_safetensors(path, tensors, metadata, raw);
}

void CheckpointWriter::add_json(const std::string& name, const nlohmann::ordered_json& value) {
    const fs::path path = path_of(name);
    manifest_.files[name] = write_json(path, value);
}

void CheckpointWriter::add_text(const std::string& name, std::string_view text) {
    AtomicFile file(path_of(name), text.size());
    file.write(text);
    manifest_.files[name] = file.commit();
}

void CheckpointWriter::add_copy(const std::string& name, const fs::path& source) {
    const InputFile from(source);
    AtomicFile to(path_of(name), from.size());
    std::vector<std::byte> buffer(std::min<std::uint64_t>(from.size(), 1 << 20));
    for (std::uint64_t at = 0; at < from.size(); at += buffer.size()) {
        const auto piece = std::span(buffer).first(std::min(from.size() - at, buffer.size()));
        from.read(at, piece);
        to.write(piece);
    }
    manifest_.files[name] = to.commit();
}

fs::path CheckpointWriter::commit(const nlohmann::json& info) {
    manifest_.info = info;
    write_manifest(temporary_, manifest_);
    const fs::path folder = checkpoints_folder(run_);
    fs::path target = checkpoint_folder(run_, manifest_.step);
    publish(temporary_, target);
    sync_folder(folder);
    point_latest(folder, target.filename().string());
    sync_folder(folder);
    remove_temporaries(folder);  // the exchanged one
    temporary_.clear();
    lock_.reset();
    return target;
}

void prune_checkpoints(const fs::path& run, std::int64_t keep_last, std::int64_t keep_every) {
    if (keep_last < 1 || keep_every < 0) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("checkpoints: keep {}, keep every {}", keep_last, keep_every),
                    "keep at least 1; 0 for none");
    }
    const fs::path folder = checkpoints_folder(run);
    make_folder(folder);
    const Descriptor lock = lock_folder(folder);
    std::vector<CheckpointInfo> all = list_checkpoints(run);
    std::erase_if(all, [](const CheckpointInfo& info) { return info.sequence < 0; });
    std::sort(all.begin(), all.end(), [](const CheckpointInfo& a, const CheckpointInfo& b) {
        return a.sequence > b.sequence;
    });
    for (std::size_t i = static_cast<std::size_t>(keep_last); i < all.size(); ++i) {
        if (keep_every > 0 && all[i].step % keep_every == 0) continue;
        // Renamed first, so that a kill in between leaves no half checkpoint.
        const fs::path doomed = folder / (kTemporary + all[i].folder.filename().string());
        rename_path(all[i].folder, doomed);
        remove_tree(doomed);
    }
}

}  // namespace subbyte::io
