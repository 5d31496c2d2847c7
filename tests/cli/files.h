// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// Tensor files written and read by hand, so that the program is not checked with its own code.
namespace subbyte::testing {

using nlohmann::json;

struct Array {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
};

inline std::string bytes_of(const std::vector<float>& values) {
    std::string bytes(4 * values.size(), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

inline std::string npy(const Array& array) {
    std::string shape;
    for (const std::int64_t size : array.shape) shape += std::to_string(size) + ", ";
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }";
    while ((10 + header.size() + 1) % 64 != 0) header += ' ';
    header += '\n';
    std::string text("\x93NUMPY\x01\x00", 8);
    text += static_cast<char>(header.size() % 256);
    text += static_cast<char>(header.size() / 256);
    return text + header + bytes_of(array.values);
}

struct Entry {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::string bytes;
};
using Entries = std::map<std::string, Entry>;

inline std::string safetensors(const Entries& entries) {
    json header = json::object();
    std::string data;
    for (const auto& [name, entry] : entries) {
        header[name] = {{"dtype", entry.dtype},
                        {"shape", entry.shape},
                        {"data_offsets", {data.size(), data.size() + entry.bytes.size()}}};
        data += entry.bytes;
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    std::string length(8, '\0');
    const std::uint64_t size = text.size();
    std::memcpy(length.data(), &size, 8);
    return length + text + data;
}

inline Entries read_safetensors(const std::string& file) {
    std::uint64_t size = 0;
    std::memcpy(&size, file.data(), 8);
    const json header = json::parse(file.substr(8, size));
    Entries entries;
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__") continue;
        const std::size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
        entries[name] = {entry["dtype"], entry["shape"],
                         file.substr(8 + size + begin, end - begin)};
    }
    return entries;
}

}  // namespace subbyte::testing
