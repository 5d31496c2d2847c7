// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "subbyte/core/file.h"

namespace subbyte::io {

// Appends records to a log: one JSON object per line, `type` first. Every record is with the
// operating system when write() returns, so a crash loses at most the line being written. For one
// thread.
class JsonlWriter {
public:
    // Opens for appending, creating the file. A torn last line (crash while writing) is cut off;
    // whole records are never touched. Error kData.
    explicit JsonlWriter(const std::filesystem::path& path);

    // `fields` is an object without the member "type" (Error kUsage). Error kData, with the file as
    // it was before, when the disk is full.
    void write(std::string_view type,
               const nlohmann::ordered_json& fields = nlohmann::ordered_json::object());

    // Says that the run goes on from `step`: readers take all earlier records of later steps as
    // superseded. They stay in the file.
    void resume(std::int64_t step);

private:
    std::filesystem::path path_;
    Descriptor fd_;
};

struct JsonlRecord {
    nlohmann::json value;     // an object with the text member "type"
    std::size_t line = 0;     // counted from 1
    bool superseded = false;  // its "step" lies beyond the step of a later "resume" record
};

struct JsonlLog {
    std::vector<JsonlRecord> records;
    bool torn = false;  // the last line was not complete and is left out
};

// Error kData with the line number for anything but a torn last line.
JsonlLog read_jsonl(const std::filesystem::path& path);

}  // namespace subbyte::io
