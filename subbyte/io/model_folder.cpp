// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/model_folder.h"

#include <fmt/format.h>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"
#include "subbyte/io/json_file.h"

namespace subbyte::io {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kFetchAgain = "fetch or save the model again";

bool is_there(const std::filesystem::path& path) {
    std::error_code ignored;  // what cannot be looked at is not there; opening it would say why
    return std::filesystem::exists(path, ignored);
}

// A file name without a way out of its folder.
bool is_plain_name(const std::string& name) {
    return !name.empty() && name != "." && name != ".." &&
           name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

}  // namespace

ModelFolder::ModelFolder(const std::filesystem::path& folder) : folder_(folder) {
    if (is_there(folder / kSingle)) {
        shards_.push_back(SafetensorsFile::open(folder / kSingle));
        for (const TensorInfo& tensor : shards_[0].tensors()) shard_of_[tensor.name] = 0;
    } else if (is_there(folder / kIndex)) {
        open_index(folder / kIndex);
    } else {
        throw Error(ErrorCode::kData,
                    fmt::format("'{}' holds neither {} nor {}", folder.string(), kSingle, kIndex),
                    "name the folder of a model with weights in safetensors format");
    }
}

void ModelFolder::open_index(const std::filesystem::path& path) {
    const auto fail = [&](const std::string& message) {
        throw Error(ErrorCode::kData, fmt::format("{}: {}", path.string(), message), kFetchAgain);
    };
    const nlohmann::json index = read_json(path);
    if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
        fail("the object 'weight_map' is missing");
    }
    std::map<std::string, std::size_t> opened;
    for (const auto& [tensor, file] : index["weight_map"].items()) {
        if (!file.is_string() || !is_plain_name(file.get<std::string>())) {
            fail(fmt::format("tensor '{}': {} is not the name of a file in this folder", tensor,
                             file.dump()));
        }
        const auto [entry, is_new] = opened.emplace(file.get<std::string>(), shards_.size());
        if (is_new) shards_.push_back(SafetensorsFile::open(folder_ / entry->first));
        if (!shards_[entry->second].contains(tensor)) {
            fail(fmt::format("tensor '{}' is not in {}, where the index places it", tensor,
                             entry->first));
        }
        shard_of_[tensor] = entry->second;
    }
    for (const SafetensorsFile& file : shards_) {
        for (const TensorInfo& tensor : file.tensors()) {
            if (!shard_of_.contains(tensor.name) || &shard(tensor.name) != &file) {
                fail(fmt::format("{} holds tensor '{}', which the index does not place there",
                                 file.path().filename().string(), tensor.name));
            }
        }
    }
}

std::vector<std::string> ModelFolder::names() const {
    std::vector<std::string> all;
    for (const auto& [name, shard] : shard_of_) all.push_back(name);
    return all;
}

const SafetensorsFile& ModelFolder::shard(const std::string& name) const {
    const auto found = shard_of_.find(name);
    if (found != shard_of_.end()) return shards_[found->second];
    const std::string close = nearest(name, names());
    throw Error(
        ErrorCode::kData,
        fmt::format("{}: no tensor '{}' among its {}", folder_.string(), name, shard_of_.size()),
        close.empty() ? "list the names with `inspect`" : fmt::format("did you mean '{}'?", close));
}

const TensorInfo& ModelFolder::info(const std::string& name) const {
    return shard(name).info(name);
}

at::Tensor ModelFolder::load(const std::string& name) const { return shard(name).load(name); }

std::map<std::string, at::Tensor> ModelFolder::load_all() const {
    std::map<std::string, at::Tensor> all;
    for (const auto& [name, shard] : shard_of_) all[name] = load(name);
    return all;
}

}  // namespace subbyte::io
