// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/manifest.h"

#include <fmt/format.h>

#include <charconv>

#include "subbyte/core/error.h"
#include "subbyte/io/json_file.h"

namespace subbyte::io {
namespace {

constexpr const char* kFormat = "subbyte checkpoint";
constexpr const char* kChecksum = "xxh64";

std::string to_hex(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

// The checksum of a manifest: of its text on one line, keys sorted, without the checksum itself.
std::string checksum_of_body(const nlohmann::json& body) {
    return to_hex(checksum_of(body.dump()));
}

}  // namespace

void write_manifest(const std::filesystem::path& folder, const Manifest& manifest) {
    nlohmann::ordered_json body{
        {"format", kFormat},     {"version", Manifest::kVersion},
        {"step", manifest.step}, {"sequence", manifest.sequence},
        {"info", manifest.info}, {"files", nlohmann::ordered_json::object()},
    };
    for (const auto& [name, file] : manifest.files) {
        body["files"][name] = {{"bytes", file.bytes}, {kChecksum, to_hex(file.checksum)}};
    }
    // Parsed back, so that the checksum is of what a reader will see (NaN, for one, becomes a
    // text).
    body[kChecksum] = checksum_of_body(nlohmann::json::parse(dump_json(body)));
    write_json(folder / Manifest::kFileName, body);
}

Manifest read_manifest(const std::filesystem::path& folder) {
    const auto fail = [&](const std::string& message, const std::string& hint) {
        throw Error(
            ErrorCode::kData,
            fmt::format("checkpoint '{}': {}: {}", folder.string(), Manifest::kFileName, message),
            hint);
    };
    constexpr const char* kUseAnother = "use an earlier checkpoint";
    nlohmann::json body;
    try {
        body = read_json(folder / Manifest::kFileName);
    } catch (const Error& error) {
        fail(error.what(), kUseAnother);
    }
    Manifest manifest;
    try {
        if (body.at("format") != kFormat) fail("not the manifest of a checkpoint", kUseAnother);
        const auto version = body.at("version").get<std::int64_t>();
        if (version < 1 || version > Manifest::kVersion) {
            fail(fmt::format("format version {}, this program reads up to {}", version,
                             Manifest::kVersion),
                 "use the release that wrote it");
        }
        const std::string stored = body.at(kChecksum).get<std::string>();
        body.erase(kChecksum);
        const std::string computed = checksum_of_body(body);
        if (stored != computed) {
            fail(fmt::format("checksum {} stored, {} computed", stored, computed), kUseAnother);
        }
        manifest.step = body.at("step").get<std::int64_t>();
        manifest.sequence = body.at("sequence").get<std::int64_t>();
        manifest.info = body.at("info");
        for (const auto& [name, file] : body.at("files").items()) {
            const std::string hex = file.at(kChecksum).get<std::string>();
            WrittenFile& entry = manifest.files[name];
            entry.bytes = file.at("bytes").get<std::uint64_t>();
            const auto end =
                std::from_chars(hex.data(), hex.data() + hex.size(), entry.checksum, 16);
            if (hex.size() != 16 || end.ptr != hex.data() + hex.size()) {
                fail(fmt::format("'{}' is not a checksum", hex), kUseAnother);
            }
            if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos) {
                fail(fmt::format("'{}' is not a file name", name), kUseAnother);
            }
        }
    } catch (const nlohmann::json::exception& error) {
        fail(error.what(), kUseAnother);
    }
    return manifest;
}

}  // namespace subbyte::io
