// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "subbyte/core/error.h"
#include "subbyte/io/json_file.h"

namespace subbyte::train {
namespace {

namespace fs = std::filesystem;

fs::path plan_file(const fs::path& path) {
    if (!fs::is_directory(path)) return path;
    for (const char* name : {"precision.json", "summary.json"}) {
        if (fs::is_regular_file(path / name)) return path / name;
    }
    fs::path newest;
    if (fs::is_directory(path / "plans")) {
        for (const auto& entry : fs::directory_iterator(path / "plans")) {
            if (entry.path().extension() == ".json") newest = std::max(newest, entry.path());
        }
    }
    if (!newest.empty()) return newest;
    throw Error(ErrorCode::kData, fmt::format("{}: no plan in this folder", path.string()),
                "name a plan file, a checkpoint, or the folder of a run that made a plan");
}

plan::Plan read_plan_file(const std::string& path, const plan::LayerTable* table) {
    const fs::path file = plan_file(path);
    nlohmann::json json = io::read_json(file);
    if (json.is_object() && json.contains("plan")) json = nlohmann::json(json.at("plan"));
    try {
        return plan::plan_from_json(json, table);
    } catch (const Error& error) {
        throw Error(error.code(), fmt::format("{}: {}", file.string(), error.what()), error.hint());
    }
}

}  // namespace

plan::Plan load_plan(const std::string& path, const plan::LayerTable& table) {
    return read_plan_file(path, &table);
}

plan::Plan load_plan(const std::string& path) { return read_plan_file(path, nullptr); }

}  // namespace subbyte::train
