// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/inspect_file.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "subbyte/core/error.h"
#include "subbyte/data/token_shard.h"
#include "subbyte/io/checkpoint.h"
#include "subbyte/io/json_file.h"
#include "subbyte/io/model_folder.h"
#include "subbyte/io/npy.h"
#include "subbyte/io/safetensors.h"
#include "subbyte/plan/machine_profile.h"
#include "subbyte/plan/plan.h"
#include "subbyte/plan/statistics.h"

namespace subbyte::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kFirstIds = 16;

Json tensor_json(const io::TensorInfo& info) {
    return {
        {"name", info.name}, {"dtype", info.dtype}, {"shape", info.shape}, {"bytes", info.bytes()}};
}

double element_count(const io::TensorInfo& info) {
    double count = 1;
    for (const std::int64_t size : info.shape) count *= double(size);
    return count;
}

// "tensors" with a line for each, and their sums in front.
void add_tensors(Json& json, std::vector<io::TensorInfo> tensors) {
    std::sort(tensors.begin(), tensors.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    double elements = 0;
    std::uint64_t bytes = 0;
    Json list = Json::array();
    for (const io::TensorInfo& info : tensors) {
        elements += element_count(info);
        bytes += info.bytes();
        list.push_back(tensor_json(info));
    }
    json["elements"] = static_cast<std::uint64_t>(elements);
    json["bytes"] = bytes;
    json["tensors"] = std::move(list);
}

Json inspect_safetensors(const fs::path& path) {
    const io::SafetensorsFile file = io::SafetensorsFile::open(path);
    Json json{{"kind", "safetensors"}};
    if (!file.metadata().empty()) json["metadata"] = file.metadata();
    add_tensors(json, file.tensors());
    return json;
}

Json inspect_npy(const fs::path& path) {
    const at::Tensor tensor = io::read_npy(path);
    const io::SafetensorsDtype* dtype = io::find_dtype(tensor.scalar_type());
    return {{"kind", "npy"},
            {"dtype", dtype == nullptr ? std::string(c10::toString(tensor.scalar_type()))
                                       : std::string(dtype->name)},
            {"shape", tensor.sizes().vec()},
            {"elements", tensor.numel()}};
}

Json inspect_tokens(const fs::path& path) {
    const data::TokenShard shard(path, {});
    std::vector<std::int64_t> first(std::min<std::size_t>(kFirstIds, shard.size()));
    shard.read(0, first);
    return {{"kind", "tokens"},
            {"ids", shard.size()},
            {"vocabulary", shard.vocab_size()},
            {"tokenizer", fmt::format("{:016x}", shard.tokenizer())},
            {"checksum", fmt::format("{:016x}", shard.checksum())},
            {"first_ids", first}};
}

Json inspect_plan(const nlohmann::json& json) {
    const plan::Plan plan = plan::plan_from_json(json);
    Json result{{"kind", "plan"}, {"method", plan.method}, {"fallback", plan.fallback}};
    std::map<std::string, int> slots;
    Json layers = Json::array();
    for (const auto& [name, recipes] : plan.layers) {
        Json layer{{"name", name}};
        for (const plan::Slot slot : plan::kSlots) {
            const std::string& recipe = recipes[static_cast<std::size_t>(slot)];
            layer[std::string(plan::slot_name(slot))] = recipe;
            ++slots[recipe];
        }
        layers.push_back(std::move(layer));
    }
    result["gemms"] = slots;
    result["layers"] = std::move(layers);
    return result;
}

Json inspect_statistics(const nlohmann::json& json) {
    const plan::ModelStatistics statistics = plan::statistics_from_json(json);
    Json layers = Json::array();
    for (std::size_t i = 0; i < statistics.layers.size(); ++i) {
        const plan::LayerStatistics& layer = statistics.layers[i];
        layers.push_back({{"name", statistics.table[i].name},
                          {"|X|", layer.x},
                          {"|W|", layer.w},
                          {"|G|", layer.g},
                          {"|dW|", layer.dw}});
    }
    return {{"kind", "statistics"},
            {"step", statistics.step},
            {"loss", statistics.loss},
            {"layers", std::move(layers)}};
}

Json inspect_profile(const nlohmann::json& json) {
    const plan::MachineProfile profile = plan::profile_from_json(json);
    Json layers = Json::array();
    for (const plan::MachineProfile::Entry& entry : profile.entries) {
        double quantise = 0;
        for (const plan::GemmSeconds& gemm : entry.slots) quantise += gemm.quantise();
        layers.push_back({{"tokens", entry.tokens},
                          {"in_features", entry.in_features},
                          {"out_features", entry.out_features},
                          {"recipe", entry.recipe},
                          {"seconds", entry.seconds()},
                          {"quantise_seconds", quantise},
                          {"bytes", entry.weight_bytes + entry.activation_bytes}});
    }
    return {{"kind", "machine-profile"},
            {"cpu", profile.cpu},
            {"isa", profile.isa},
            {"threads", profile.threads},
            {"layers", std::move(layers)}};
}

Json inspect_json(const fs::path& path) {
    const nlohmann::json json = io::read_json(path);
    if (json.is_object() && json.contains("fallback")) return inspect_plan(json);
    if (json.is_object() && json.contains("layers")) return inspect_statistics(json);
    if (json.is_object() && json.contains("entries")) return inspect_profile(json);
    throw Error(ErrorCode::kData, fmt::format("{}: JSON of no known kind", path.string()),
                "plans, statistics and machine profiles can be looked into");
}

Json inspect_checkpoint(const fs::path& folder) {
    const io::Manifest manifest = io::verify_checkpoint(folder);
    Json json{{"kind", "checkpoint"}, {"step", manifest.step}, {"sequence", manifest.sequence}};
    if (!manifest.info.empty()) json["info"] = manifest.info;
    Json files = Json::array();
    for (const auto& [name, file] : manifest.files) {
        files.push_back({{"name", name},
                         {"bytes", file.bytes},
                         {"checksum", fmt::format("{:016x}", file.checksum)}});
    }
    json["files"] = std::move(files);
    return json;
}

Json inspect_model(const fs::path& folder) {
    const io::ModelFolder model(folder);
    std::vector<io::TensorInfo> tensors;
    for (const std::string& name : model.names()) tensors.push_back(model.info(name));
    Json json{{"kind", "model"}};
    add_tensors(json, std::move(tensors));
    return json;
}

// The first bytes of a file; fewer when it is shorter.
std::string head_of(const fs::path& path) {
    const InputFile file(path);
    std::string head(std::min<std::uint64_t>(file.size(), 64), '\0');
    file.read(0, std::as_writable_bytes(std::span(head)));
    return head;
}

}  // namespace

nlohmann::ordered_json inspect_file(const fs::path& path) {
    if (fs::is_directory(path)) {
        return fs::exists(path / io::Manifest::kFileName) ? inspect_checkpoint(path)
                                                          : inspect_model(path);
    }
    const std::string head = head_of(path);
    if (head.starts_with("\x93NUMPY")) return inspect_npy(path);
    if (head.starts_with("SBTK")) return inspect_tokens(path);
    const std::size_t text = head.find_first_not_of(" \t\r\n");
    if (text != head.npos && head[text] == '{') return inspect_json(path);
    return inspect_safetensors(path);
}

}  // namespace subbyte::train
