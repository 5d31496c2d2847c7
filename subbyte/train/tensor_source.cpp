// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/train/tensor_source.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <string_view>

#include "subbyte/io/model_folder.h"
#include "subbyte/io/npy.h"
#include "subbyte/io/safetensors.h"

namespace subbyte::train {
namespace {

bool is_npy(const std::filesystem::path& path) {
    char magic[6] = {};
    std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
    return std::string_view(magic, sizeof magic) == "\x93NUMPY";
}

// `file` has names and load(name); the entries keep it open.
template <typename File>
TensorSource source_of(std::shared_ptr<File> file, std::vector<std::string> names) {
    std::sort(names.begin(), names.end());
    TensorSource source;
    for (const std::string& name : names) {
        source.entries.push_back({name, [file, name] { return file->load(name); }});
    }
    return source;
}

}  // namespace

TensorSource open_tensors(const std::filesystem::path& path) {
    if (std::filesystem::is_directory(path)) {
        auto folder = std::make_shared<io::ModelFolder>(path);
        return source_of(folder, folder->names());
    }
    if (is_npy(path)) return {{{"data", [path] { return io::read_npy(path); }}}};
    auto file = std::make_shared<io::SafetensorsFile>(io::SafetensorsFile::open(path));
    std::vector<std::string> names;
    for (const io::TensorInfo& info : file->tensors()) names.push_back(info.name);
    return source_of(file, std::move(names));
}

}  // namespace subbyte::train
