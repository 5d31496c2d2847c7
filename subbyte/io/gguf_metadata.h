// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace subbyte::io {

// Type of a metadata value; the numbers are those of the file (GGUF specification, version 3).
enum class GgufType : std::uint32_t {
    kUint8 = 0,
    kInt8,
    kUint16,
    kInt16,
    kUint32,
    kInt32,
    kFloat32,
    kBool,
    kString,
    kArray,
    kUint64,
    kInt64,
    kFloat64
};

// Bytes of one value; 0 for texts and arrays.
std::size_t element_bytes(GgufType type);
const char* name_of(GgufType type);

// Numbers stay as the bytes of the file until they are asked for, so that a list takes no more
// memory than it takes there. Texts have their own form.
struct GgufArray {
    GgufType type = GgufType::kUint8;  // of the elements; never kArray
    std::uint64_t count = 0;
    std::string numbers;             // little-endian, count * element_bytes(type) bytes
    std::vector<std::string> texts;  // kString
};

struct GgufValue {
    GgufType type = GgufType::kUint8;
    std::variant<std::uint64_t, std::int64_t, double, bool, std::string, GgufArray> value;
};

// The key/value part of a GGUF file. The readers throw Error kData that names file, key, the type
// or value found and what was expected; find_...() give nothing when the key is absent.
class GgufMetadata {
public:
    explicit GgufMetadata(std::string file) : file_(std::move(file)) {}

    // False when the key is there already.
    bool add(std::string key, GgufValue value) {
        return values_.emplace(std::move(key), std::move(value)).second;
    }
    bool contains(const std::string& key) const { return values_.contains(key); }
    std::size_t size() const { return values_.size(); }
    const std::string& file() const { return file_; }

    std::string text(const std::string& key) const;
    std::int64_t integer(const std::string& key) const;  // of any integer type, below 2^63
    double number(const std::string& key) const;         // of any number type
    std::vector<std::string> texts(const std::string& key) const;
    std::vector<std::int64_t> integers(const std::string& key) const;
    std::vector<double> numbers(const std::string& key) const;  // of floats

    std::optional<std::string> find_text(const std::string& key) const;
    std::optional<std::int64_t> find_integer(const std::string& key) const;
    std::optional<double> find_number(const std::string& key) const;
    std::optional<bool> find_boolean(const std::string& key) const;

    [[noreturn]] void fail(const std::string& key, const std::string& message,
                           const std::string& hint = {}) const;

private:
    const GgufValue& get(const std::string& key) const;
    const GgufArray& array(const std::string& key, const char* expected) const;
    template <class T, class Read>
    std::optional<T> find(const std::string& key, Read read) const;

    std::string file_;
    std::map<std::string, GgufValue> values_;
};

}  // namespace subbyte::io
