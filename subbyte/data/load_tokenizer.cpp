// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "subbyte/core/error.h"
#include "subbyte/core/file.h"
#include "subbyte/data/tokenizer.h"

namespace subbyte::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestTokenizer = 256 << 20;  // bytes

TokenizerPtr load_bpe(const fs::path& path) {
    const fs::path config = path.parent_path() / "tokenizer_config.json";
    return parse_bpe(read_text(path, kLargestTokenizer),
                     fs::exists(config) ? read_text(config, kLargestTokenizer) : "", path.string());
}

TokenizerPtr load_marker(const fs::path& path) {
    if (read_text(path, kLargestTokenizer) != "bytes\n") {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: holds something else than the word bytes", path.string()),
                    "name a .model file or a tokenizer.json");
    }
    return make_byte_tokenizer();
}

}  // namespace

TokenizerPtr load_tokenizer_file(const fs::path& path) {
    const std::string suffix = path.extension().string();
    if (suffix == ".json") return load_bpe(path);
    if (suffix == ".txt") return load_marker(path);
    return load_sentencepiece(path);
}

fs::path find_tokenizer(const fs::path& folder) {
    for (const char* name : {"tokenizer.model", "tokenizer.json", "tokenizer.txt"}) {
        if (fs::exists(folder / name)) return folder / name;
    }
    return {};
}

}  // namespace subbyte::data
