// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/jsonl.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "subbyte/core/error.h"
#include "subbyte/io/json_file.h"

namespace subbyte::io {
namespace {

// Is the line complete? A crash of the machine can also leave zero bytes, which the JSON library
// would take for the end of the text.
bool is_complete(std::string_view line) {
    return line.find('\0') == std::string_view::npos && nlohmann::json::accept(line);
}

// The bytes after the last newline of a file.
std::string last_line(const InputFile& file) {
    constexpr std::uint64_t kChunk = 4096;
    std::string tail;
    for (std::uint64_t end = file.size(); end > 0;) {
        const std::uint64_t begin = end - std::min(end, kChunk);
        std::string chunk(end - begin, '\0');
        file.read(begin, std::as_writable_bytes(std::span(chunk)));
        const std::size_t newline = chunk.rfind('\n');
        if (newline != std::string::npos) return chunk.substr(newline + 1) + tail;
        tail.insert(0, chunk);
        end = begin;
    }
    return tail;
}

void append(const Descriptor& fd, const std::filesystem::path& path, const std::string& text) {
    struct stat before {};
    if (::fstat(fd.get(), &before) != 0) fail_system("read", path, errno);
    const int error = write_all(fd.get(), std::as_bytes(std::span(text)));
    if (error == 0) return;
    // No half record stays. If even that fails, the next writer cuts it off.
    const bool whole = ::ftruncate(fd.get(), before.st_size) == 0;
    fail_system(fmt::format("written ({} bytes more)", text.size()), path, error,
                whole ? "free space on this disk; the log is as it was before this record"
                      : "free space on this disk; the last line of the log is incomplete");
}

void mark_superseded(std::vector<JsonlRecord>& records, std::int64_t step) {
    for (JsonlRecord& record : records) {
        const auto own = record.value.find("step");
        if (own != record.value.end() && own->is_number() && own->get<double>() > double(step)) {
            record.superseded = true;
        }
    }
}

}  // namespace

JsonlWriter::JsonlWriter(const std::filesystem::path& path) : path_(path) {
    fd_ = Descriptor(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
    if (fd_.get() < 0)
        fail_system("written", path, errno, "check that the folder exists and is writable");
    const InputFile file(path);
    const std::string tail = last_line(file);
    if (tail.empty()) return;
    if (is_complete(tail)) {
        append(fd_, path_, "\n");
    } else if (::ftruncate(fd_.get(), static_cast<off_t>(file.size() - tail.size())) != 0) {
        fail_system("freed of its torn last line", path, errno);
    }
}

void JsonlWriter::write(std::string_view type, const nlohmann::ordered_json& fields) {
    if (!fields.is_object() || fields.contains("type")) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("a record of the log is an object without 'type', found {}",
                                fields.is_object() ? "'type'" : fields.type_name()));
    }
    nlohmann::ordered_json record{{"type", type}};
    record.update(fields);
    append(fd_, path_, dump_json(record) + "\n");
}

void JsonlWriter::resume(std::int64_t step) { write("resume", {{"from_step", step}}); }

JsonlLog read_jsonl(const std::filesystem::path& path) {
    const std::string text = read_text(path);
    JsonlLog log;
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < text.size();) {
        ++number;
        const std::size_t newline = text.find('\n', begin);
        const std::size_t end = std::min(newline, text.size());
        const std::string_view line = std::string_view(text).substr(begin, end - begin);
        begin = end + 1;
        if (newline == std::string::npos && !is_complete(line)) {
            log.torn = true;
            break;
        }
        const std::string where = fmt::format("{}: line {}", path.string(), number);
        JsonlRecord record{.value = parse_json(line, where), .line = number};
        const auto fail = [&](const std::string& message) {
            throw Error(ErrorCode::kData, fmt::format("{}: {}", where, message),
                        "only logs of this program can be read");
        };
        if (!record.value.is_object() || !record.value.contains("type") ||
            !record.value["type"].is_string()) {
            fail("not an object with a text 'type'");
        }
        if (record.value["type"] == "resume") {
            const auto step = record.value.find("from_step");
            if (step == record.value.end() || !step->is_number_integer()) {
                fail("a resume record needs a whole number 'from_step'");
            }
            mark_superseded(log.records, step->get<std::int64_t>());
        }
        log.records.push_back(std::move(record));
    }
    return log;
}

}  // namespace subbyte::io
