// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/gguf.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "subbyte/core/error.h"
#include "subbyte/core/nearest.h"

namespace subbyte::io {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie there");

constexpr const char* kDamagedGguf = "the file is damaged or incomplete; fetch it again";
constexpr std::uint32_t kMostDimensions = 4;  // of ggml

// Reads a file from front to back. Every read says what it is for, so that an error can.
class GgufCursor {
public:
    explicit GgufCursor(const InputFile& file) : file_(file) {}

    std::uint64_t position() const { return at_; }
    std::uint64_t left() const { return file_.size() - at_; }

    template <class T>
    T number(const std::string& what) {
        T value;
        need(sizeof value, what);
        read(&value, sizeof value);
        return value;
    }

    std::string bytes(std::uint64_t count, const std::string& what) {
        need(count, what);
        std::string result(count, '\0');
        read(result.data(), count);
        return result;
    }

    std::string text(const std::string& what) {
        return bytes(number<std::uint64_t>(what + ": length"), what);
    }

    // The number of things that take at least `bytes_each`: more than fit are refused here.
    std::uint64_t count(std::uint64_t number, std::uint64_t bytes_each, const std::string& what) {
        if (number > left() / bytes_each) {
            fail(fmt::format("{}: {} of at least {} bytes each do not fit into the {} bytes left",
                             what, number, bytes_each, left()));
        }
        return number;
    }

    [[noreturn]] void fail(const std::string& message,
                           const std::string& hint = kDamagedGguf) const {
        throw Error(ErrorCode::kData, fmt::format("{}: {}", file_.path().string(), message), hint);
    }

private:
    static constexpr std::uint64_t kBuffer = 1 << 16;

    void need(std::uint64_t count, const std::string& what) const {
        if (count > left()) {
            fail(fmt::format("{}: {} bytes at byte {}, but the file has {}", what, count, at_,
                             file_.size()));
        }
    }

    void read(void* to, std::uint64_t count) {
        auto* out = static_cast<char*>(to);
        while (count > 0) {
            if (at_ < buffer_begin_ || at_ >= buffer_begin_ + buffer_.size()) {
                buffer_.resize(std::min(kBuffer, left()));
                file_.read(at_, buffer_.data(), buffer_.size());
                buffer_begin_ = at_;
            }
            const std::uint64_t from = at_ - buffer_begin_;
            const std::uint64_t part = std::min<std::uint64_t>(count, buffer_.size() - from);
            std::memcpy(out, buffer_.data() + from, part);
            out += part, at_ += part, count -= part;
        }
    }

    const InputFile& file_;
    std::uint64_t at_ = 0, buffer_begin_ = 0;
    std::string buffer_;
};

GgufType read_type(GgufCursor& in, const std::string& what) {
    const auto type = in.number<std::uint32_t>(what + ": type");
    if (type > static_cast<std::uint32_t>(GgufType::kFloat64)) {
        in.fail(fmt::format("{}: value type {} is unknown, 0 to 12 are known", what, type));
    }
    return static_cast<GgufType>(type);
}

GgufArray read_array(GgufCursor& in, const std::string& what) {
    GgufArray array;
    array.type = read_type(in, what + ": element");
    if (array.type == GgufType::kArray) {
        in.fail(what + ": a list of lists", "lists of lists are not supported, as in ggml");
    }
    const std::size_t each = array.type == GgufType::kString ? 8 : element_bytes(array.type);
    array.count = in.count(in.number<std::uint64_t>(what + ": count"), each, what);
    if (array.type != GgufType::kString) {
        array.numbers = in.bytes(array.count * each, what);
        return array;
    }
    array.texts.reserve(array.count);
    for (std::uint64_t i = 0; i < array.count; ++i) array.texts.push_back(in.text(what));
    return array;
}

GgufValue read_value(GgufCursor& in, const std::string& what) {
    const GgufType type = read_type(in, what);
    GgufValue result{type, {}};
    switch (type) {
        case GgufType::kUint8: result.value = std::uint64_t{in.number<std::uint8_t>(what)}; break;
        case GgufType::kUint16: result.value = std::uint64_t{in.number<std::uint16_t>(what)}; break;
        case GgufType::kUint32: result.value = std::uint64_t{in.number<std::uint32_t>(what)}; break;
        case GgufType::kUint64: result.value = in.number<std::uint64_t>(what); break;
        case GgufType::kInt8: result.value = std::int64_t{in.number<std::int8_t>(what)}; break;
        case GgufType::kInt16: result.value = std::int64_t{in.number<std::int16_t>(what)}; break;
        case GgufType::kInt32: result.value = std::int64_t{in.number<std::int32_t>(what)}; break;
        case GgufType::kInt64: result.value = in.number<std::int64_t>(what); break;
        case GgufType::kFloat32: result.value = double{in.number<float>(what)}; break;
        case GgufType::kFloat64: result.value = in.number<double>(what); break;
        case GgufType::kBool: {
            const auto byte = in.number<std::uint8_t>(what);
            if (byte > 1)
                in.fail(fmt::format("{}: {} is neither true (1) nor false (0)", what, byte));
            result.value = byte == 1;
            break;
        }
        case GgufType::kString: result.value = in.text(what); break;
        case GgufType::kArray: result.value = read_array(in, what); break;
    }
    return result;
}

// The entry of one tensor; `begin` and `end` still count from the start of the data.
GgufTensor read_tensor(GgufCursor& in, std::uint64_t number) {
    GgufTensor tensor;
    tensor.name = in.text(fmt::format("name of tensor {}", number));
    const std::string what = fmt::format("tensor '{}'", tensor.name);
    const auto dimensions = in.number<std::uint32_t>(what + ": number of dimensions");
    if (dimensions < 1 || dimensions > kMostDimensions) {
        in.fail(
            fmt::format("{}: {} dimensions, 1 to {} expected", what, dimensions, kMostDimensions));
    }
    std::vector<std::uint64_t> sizes(dimensions);
    for (std::uint64_t& size : sizes) size = in.number<std::uint64_t>(what + ": dimension");
    const auto type = in.number<std::uint32_t>(what + ": type");
    tensor.begin = in.number<std::uint64_t>(what + ": offset");
    tensor.type = find_ggml_type(type);
    if (tensor.type == nullptr) {
        in.fail(fmt::format("{}: its type is number {}, which cannot be read", what, type),
                fmt::format("take a file with tensors in {}", fmt::join(ggml_type_names(), ", ")));
    }
    std::uint64_t values = 1;
    for (const std::uint64_t size : sizes) {
        if (size < 1 || size > (std::uint64_t{1} << 48) / values) {
            in.fail(
                fmt::format("{}: dimensions [{}]: each must be at least 1, their product at "
                            "most 2^48",
                            what, fmt::join(sizes, ", ")));
        }
        values *= size;
    }
    const auto block = static_cast<std::uint64_t>(tensor.type->values);
    if (sizes[0] % block != 0) {
        in.fail(fmt::format("{}: rows of {} values are no whole number of {} blocks of {}", what,
                            sizes[0], tensor.type->name, block));
    }
    const std::uint64_t bytes = values / block * static_cast<std::uint64_t>(tensor.type->bytes);
    if (tensor.begin > UINT64_MAX - bytes) {
        in.fail(fmt::format("{}: offset {} is beyond all files", what, tensor.begin));
    }
    tensor.end = tensor.begin + bytes;
    for (const std::uint64_t size : sizes) {
        tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));
    }
    return tensor;
}

}  // namespace

std::int64_t GgufTensor::values() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

GgufFile::GgufFile(const std::filesystem::path& path) : file_(path), metadata_(path.string()) {
    GgufCursor in(file_);
    constexpr const char* kNotGguf = "give a file in GGUF format (*.gguf)";
    if (in.left() < 4 || in.bytes(4, "magic") != "GGUF") {
        in.fail("is no GGUF file, it does not begin with GGUF", kNotGguf);
    }
    version_ = in.number<std::uint32_t>("version");
    if (version_ != 2 && version_ != 3) {
        const bool swapped = version_ != 0 && (version_ & 0xFFFF) == 0;
        in.fail(fmt::format("GGUF version {}{}; 2 and 3 can be read", version_,
                            swapped ? " (big-endian?)" : ""),
                "convert it with the tools of llama.cpp");
    }
    const auto tensor_count = in.number<std::uint64_t>("number of tensors");
    // A pair: length of the key, type, one byte. A tensor: length, dimensions, one size, type,
    // offset.
    const std::uint64_t pairs = in.count(in.number<std::uint64_t>("number of keys"), 13, "keys");
    for (std::uint64_t i = 0; i < pairs; ++i) {
        const std::string key = in.text(fmt::format("key {}", i));
        if (!metadata_.add(key, read_value(in, fmt::format("'{}'", key)))) {
            in.fail(fmt::format("key '{}' appears twice", key));
        }
    }
    in.count(tensor_count, 32, "tensors");
    tensors_.reserve(tensor_count);
    for (std::uint64_t i = 0; i < tensor_count; ++i) {
        tensors_.push_back(read_tensor(in, i));
        if (!index_.emplace(tensors_.back().name, i).second) {
            in.fail(fmt::format("tensor '{}' appears twice", tensors_.back().name));
        }
    }
    place_tensors(in.position());
}

// The data begin at the next multiple of the alignment; offsets count from there.
void GgufFile::place_tensors(std::uint64_t header_end) {
    const std::int64_t alignment = metadata_.find_integer("general.alignment").value_or(32);
    if (alignment < 1 || alignment > (1 << 30) || (alignment & (alignment - 1)) != 0) {
        metadata_.fail("general.alignment",
                       fmt::format("is {}, a power of two up to 2^30 expected", alignment));
    }
    const auto step = static_cast<std::uint64_t>(alignment);
    const std::uint64_t data = (header_end + step - 1) / step * step;
    const std::uint64_t room = file_.size() > data ? file_.size() - data : 0;
    std::vector<const GgufTensor*> order;
    for (GgufTensor& tensor : tensors_) {
        const auto fail = [&](const std::string& message) {
            throw Error(ErrorCode::kData,
                        fmt::format("{}: tensor '{}': {}", path().string(), tensor.name, message),
                        kDamagedGguf);
        };
        if (tensor.begin % step != 0) {
            fail(fmt::format("offset {} is no multiple of {}", tensor.begin, step));
        }
        if (tensor.end > room) {
            fail(fmt::format("bytes {} to {} of the data, but the file has {}", tensor.begin,
                             tensor.end, room));
        }
        tensor.begin += data, tensor.end += data;
        order.push_back(&tensor);
    }
    std::sort(order.begin(), order.end(),
              [](const auto* a, const auto* b) { return a->begin < b->begin; });
    for (std::size_t i = 1; i < order.size(); ++i) {
        if (order[i]->begin < order[i - 1]->end) {
            throw Error(ErrorCode::kData,
                        fmt::format("{}: tensors '{}' and '{}' overlap", path().string(),
                                    order[i - 1]->name, order[i]->name),
                        kDamagedGguf);
        }
    }
}

const GgufTensor& GgufFile::info(const std::string& name) const {
    const auto found = index_.find(name);
    if (found != index_.end()) return tensors_[found->second];
    std::vector<std::string> names;
    for (const GgufTensor& tensor : tensors_) names.push_back(tensor.name);
    const std::string close = nearest(name, names);
    throw Error(ErrorCode::kData,
                fmt::format("{}: no tensor '{}' among its {}", path().string(), name, names.size()),
                close.empty() ? kDamagedGguf : fmt::format("did you mean '{}'?", close));
}

at::Tensor GgufFile::load(const std::string& name) const {
    const GgufTensor& tensor = info(name);
    std::vector<std::byte> blocks(tensor.end - tensor.begin);
    file_.read(tensor.begin, blocks);
    at::Tensor result = at::empty(tensor.shape, at::TensorOptions().dtype(at::kFloat));
    dequantize(*tensor.type, blocks,
               {result.mutable_data_ptr<float>(), static_cast<std::size_t>(result.numel())});
    return result;
}

}  // namespace subbyte::io
