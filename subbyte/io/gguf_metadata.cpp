// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/gguf_metadata.h"

#include <fmt/format.h>

#include <cstring>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"

namespace subbyte::io {
namespace {

template <class T>
T element(const GgufArray& array, std::uint64_t i) {
    T value;
    std::memcpy(&value, array.numbers.data() + i * sizeof value, sizeof value);
    return value;
}

}  // namespace

std::size_t element_bytes(GgufType type) {
    switch (type) {
        case GgufType::kUint8:
        case GgufType::kInt8:
        case GgufType::kBool: return 1;
        case GgufType::kUint16:
        case GgufType::kInt16: return 2;
        case GgufType::kUint32:
        case GgufType::kInt32:
        case GgufType::kFloat32: return 4;
        case GgufType::kUint64:
        case GgufType::kInt64:
        case GgufType::kFloat64: return 8;
        case GgufType::kString:
        case GgufType::kArray: return 0;
    }
    return 0;
}

const char* name_of(GgufType type) {
    static constexpr const char* kNames[] = {"uint8",  "int8",    "uint16", "int16", "uint32",
                                             "int32",  "float32", "bool",   "text",  "list",
                                             "uint64", "int64",   "float64"};
    return kNames[static_cast<std::size_t>(type)];
}

void GgufMetadata::fail(const std::string& key, const std::string& message,
                        const std::string& hint) const {
    throw Error(ErrorCode::kData, fmt::format("{}: '{}' {}", file_, key, message),
                hint.empty() ? "the file is damaged, or its maker left the rules; fetch it again, "
                               "or take another"
                             : hint);
}

const GgufValue& GgufMetadata::get(const std::string& key) const {
    const auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    std::vector<std::string> keys;
    for (const auto& [name, value] : values_) keys.push_back(name);
    const std::string close = nearest(key, keys);
    fail(key, fmt::format("is missing among {} keys", keys.size()),
         close.empty() ? "" : fmt::format("the nearest key there is '{}'", close));
}

std::string GgufMetadata::text(const std::string& key) const {
    const GgufValue& found = get(key);
    if (const auto* text = std::get_if<std::string>(&found.value)) return *text;
    fail(key, fmt::format("is of type {}, a text expected", name_of(found.type)));
}

std::int64_t GgufMetadata::integer(const std::string& key) const {
    const GgufValue& found = get(key);
    if (const auto* value = std::get_if<std::int64_t>(&found.value)) return *value;
    if (const auto* value = std::get_if<std::uint64_t>(&found.value)) {
        if (*value <= INT64_MAX) return static_cast<std::int64_t>(*value);
        fail(key, fmt::format("is {}, a number below 2^63 expected", *value));
    }
    fail(key, fmt::format("is of type {}, a whole number expected", name_of(found.type)));
}

double GgufMetadata::number(const std::string& key) const {
    const GgufValue& found = get(key);
    if (const auto* value = std::get_if<double>(&found.value)) return *value;
    if (const auto* value = std::get_if<std::int64_t>(&found.value)) {
        return static_cast<double>(*value);
    }
    if (const auto* value = std::get_if<std::uint64_t>(&found.value)) {
        return static_cast<double>(*value);
    }
    fail(key, fmt::format("is of type {}, a number expected", name_of(found.type)));
}

const GgufArray& GgufMetadata::array(const std::string& key, const char* expected) const {
    const GgufValue& found = get(key);
    if (const auto* list = std::get_if<GgufArray>(&found.value)) return *list;
    fail(key, fmt::format("is of type {}, {} expected", name_of(found.type), expected));
}

std::vector<std::string> GgufMetadata::texts(const std::string& key) const {
    const GgufArray& list = array(key, "a list of texts");
    if (list.type != GgufType::kString) {
        fail(key, fmt::format("is a list of {}, a list of texts expected", name_of(list.type)));
    }
    return list.texts;
}

std::vector<std::int64_t> GgufMetadata::integers(const std::string& key) const {
    const GgufArray& list = array(key, "a list of whole numbers");
    std::vector<std::int64_t> all;
    all.reserve(list.count);
    for (std::uint64_t i = 0; i < list.count; ++i) {
        switch (list.type) {
            case GgufType::kUint8: all.push_back(element<std::uint8_t>(list, i)); break;
            case GgufType::kInt8: all.push_back(element<std::int8_t>(list, i)); break;
            case GgufType::kUint16: all.push_back(element<std::uint16_t>(list, i)); break;
            case GgufType::kInt16: all.push_back(element<std::int16_t>(list, i)); break;
            case GgufType::kUint32: all.push_back(element<std::uint32_t>(list, i)); break;
            case GgufType::kInt32: all.push_back(element<std::int32_t>(list, i)); break;
            case GgufType::kInt64: all.push_back(element<std::int64_t>(list, i)); break;
            default:
                fail(key, fmt::format("is a list of {}, a list of whole numbers expected",
                                      name_of(list.type)));
        }
    }
    return all;
}

std::vector<double> GgufMetadata::numbers(const std::string& key) const {
    const GgufArray& list = array(key, "a list of floats");
    std::vector<double> all;
    all.reserve(list.count);
    for (std::uint64_t i = 0; i < list.count; ++i) {
        switch (list.type) {
            case GgufType::kFloat32: all.push_back(double{element<float>(list, i)}); break;
            case GgufType::kFloat64: all.push_back(element<double>(list, i)); break;
            default:
                fail(key,
                     fmt::format("is a list of {}, a list of floats expected", name_of(list.type)));
        }
    }
    return all;
}

template <class T, class Read>
std::optional<T> GgufMetadata::find(const std::string& key, Read read) const {
    if (!contains(key)) return std::nullopt;
    return read();
}

std::optional<std::string> GgufMetadata::find_text(const std::string& key) const {
    return find<std::string>(key, [&] { return text(key); });
}

std::optional<std::int64_t> GgufMetadata::find_integer(const std::string& key) const {
    return find<std::int64_t>(key, [&] { return integer(key); });
}

std::optional<double> GgufMetadata::find_number(const std::string& key) const {
    return find<double>(key, [&] { return number(key); });
}

std::optional<bool> GgufMetadata::find_boolean(const std::string& key) const {
    return find<bool>(key, [&] {
        const GgufValue& found = get(key);
        if (const auto* value = std::get_if<bool>(&found.value)) return *value;
        fail(key, fmt::format("is of type {}, true or false expected", name_of(found.type)));
    });
}

}  // namespace subbyte::io
