// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/safetensors.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"

namespace subbyte::io {
namespace {

constexpr std::uint64_t kLongestHeader = 100'000'000;  // limit of the format

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
    return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// The header entry of a tensor, without its range.
TensorInfo describe(const std::string& name, const at::Tensor& tensor) {
    const auto fail = [&](const std::string& message, const std::string& hint) {
        throw Error(ErrorCode::kUsage, fmt::format("cannot save tensor '{}': {}", name, message),
                    hint);
    };
    if (!tensor.defined()) fail("it is undefined", "assign it first");
    if (tensor.layout() != at::kStrided) fail("it is not dense", "convert it to a dense tensor");
    const SafetensorsDtype* dtype = find_dtype(tensor.scalar_type());
    if (dtype == nullptr) {
        fail(fmt::format("safetensors has no dtype for {}", c10::toString(tensor.scalar_type())),
             "convert it to another dtype");
    }
    TensorInfo info{.name = name, .dtype = std::string(dtype->name), .shape = tensor.sizes().vec()};
    if (dtype->bits < 8) {
        if (info.shape.empty()) fail("a scalar of two 4-bit elements", "give it a dimension");
        info.shape.back() *= 8 / dtype->bits;
    }
    return info;
}

TensorInfo describe(const RawTensor& raw) {
    const auto fail = [&](const std::string& message) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("cannot save tensor '{}': {}", raw.name, message),
                    "give dtype, shape and bytes that belong together");
    };
    const SafetensorsDtype* dtype = find_dtype(raw.dtype);
    if (dtype == nullptr) fail(fmt::format("dtype '{}' is unknown", raw.dtype));
    std::uint64_t needed = 0;
    try {
        needed = storage_bytes(*dtype, raw.shape, raw.name);
    } catch (const Error& error) {
        fail(error.what());
    }
    if (needed != raw.bytes.size()) {
        fail(fmt::format("shape [{}] of {} needs {} bytes, {} were given",
                         fmt::join(raw.shape, ", "), raw.dtype, needed, raw.bytes.size()));
    }
    return {.name = raw.name, .dtype = raw.dtype, .shape = raw.shape};
}

// Where the bytes of a header entry come from; exactly one is set.
struct Source {
    const at::Tensor* tensor = nullptr;
    const RawTensor* raw = nullptr;
};

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
    return SafetensorsFile(path);
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : file_(path) {
    const std::string name = path.string();
    std::array<std::byte, 8> prefix{};
    if (file_.size() < prefix.size()) {
        throw Error(
            ErrorCode::kData,
            fmt::format("{}: {} bytes are too few for a safetensors file, the length of the "
                        "header alone takes 8",
                        name, file_.size()),
            "the file is damaged; fetch or save it again");
    }
    file_.read(0, prefix);
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | std::to_integer<std::uint64_t>(prefix[i]);
    const std::uint64_t room = file_.size() - prefix.size();
    if (length == 0 || length > std::min(room, kLongestHeader)) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: header length {} is not in 1 .. {} (the file has {} bytes)",
                                name, length, std::min(room, kLongestHeader), file_.size()),
                    "check that this is a safetensors file and that it is complete");
    }
    std::string text(length, '\0');
    file_.read(prefix.size(), std::as_writable_bytes(std::span(text)));
    data_begin_ = prefix.size() + length;
    header_ = parse_header(text, file_.size() - data_begin_, name);
    for (std::size_t i = 0; i < header_.tensors.size(); ++i) index_[header_.tensors[i].name] = i;
}

const TensorInfo& SafetensorsFile::info(const std::string& name) const {
    const auto found = index_.find(name);
    if (found != index_.end()) return header_.tensors[found->second];
    std::vector<std::string> names;
    for (const TensorInfo& tensor : header_.tensors) names.push_back(tensor.name);
    const std::string close = nearest(name, names);
    throw Error(
        ErrorCode::kData,
        fmt::format("{}: no tensor '{}' among its {}", path().string(), name, names.size()),
        close.empty() ? "list the names with `inspect`" : fmt::format("did you mean '{}'?", close));
}

void SafetensorsFile::read_bytes(const std::string& name, std::span<std::byte> out) const {
    const TensorInfo& tensor = info(name);
    if (out.size() != tensor.bytes()) {
        throw Error(ErrorCode::kUsage, fmt::format("tensor '{}' has {} bytes, the buffer has {}",
                                                   name, tensor.bytes(), out.size()));
    }
    file_.read(data_begin_ + tensor.begin, out);
}

at::Tensor SafetensorsFile::load(const std::string& name) const {
    const TensorInfo& tensor = info(name);
    const SafetensorsDtype& dtype = *find_dtype(tensor.dtype);
    std::vector<std::int64_t> shape = tensor.shape;
    if (dtype.bits < 8) shape.back() /= 8 / dtype.bits;
    at::Tensor result = at::empty(shape, at::TensorOptions().dtype(dtype.type));
    const std::span<std::byte> bytes = bytes_of(result);
    read_bytes(name, bytes);
    if (dtype.type == at::kBool) {
        // Any other byte would be undefined behaviour in every operator that reads it.
        const auto bad = std::find_if(bytes.begin(), bytes.end(),
                                      [](std::byte byte) { return byte > std::byte{1}; });
        if (bad != bytes.end()) {
            throw Error(
                ErrorCode::kData,
                fmt::format("{}: tensor '{}': byte {} is {}, a BOOL is 0 or 1", path().string(),
                            name, bad - bytes.begin(), std::to_integer<int>(*bad)),
                "the file is damaged; fetch or save it again");
        }
    }
    return result;
}

NamedTensors SafetensorsFile::load_all() const {
    NamedTensors all;
    for (const TensorInfo& tensor : header_.tensors)
        all.emplace_back(tensor.name, load(tensor.name));
    return all;
}

WrittenFile save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                             const Metadata& metadata, const std::vector<RawTensor>& raw) {
    std::vector<TensorInfo> entries;
    std::map<std::string, Source> sources;
    const auto add = [&](TensorInfo entry, const Source& source) {
        if (entry.name == "__metadata__" || !sources.emplace(entry.name, source).second) {
            throw Error(
                ErrorCode::kUsage,
                fmt::format("cannot save '{}': the name '{}' is {}", path.string(), entry.name,
                            entry.name == "__metadata__" ? "reserved" : "used twice"),
                "give every tensor its own name");
        }
        entries.push_back(std::move(entry));
    };
    for (const auto& [name, tensor] : tensors) add(describe(name, tensor), {.tensor = &tensor});
    for (const RawTensor& item : raw) add(describe(item), {.raw = &item});

    const std::string header = make_header(entries, metadata);
    AtomicFile file(path, header.size() + (entries.empty() ? 0 : entries.back().end));
    file.write(header);
    for (const TensorInfo& entry : entries) {
        const Source& source = sources.at(entry.name);
        if (source.raw != nullptr) {
            file.write(source.raw->bytes);
        } else {
            file.write(bytes_of(source.tensor->detach().cpu().contiguous()));
        }
    }
    return file.commit();
}

}  // namespace subbyte::io
