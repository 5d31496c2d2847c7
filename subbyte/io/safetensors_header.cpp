// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "subbyte/core/error.h"

namespace subbyte::io {
namespace {

constexpr const char* kDamaged = "the file is damaged; fetch or save it again";
constexpr const char* kMetadata = "__metadata__";

// Builds the header while the text is read and refuses the first thing that does not belong into
// it, so that a hostile text costs no memory. Depth 1: tensor names; 2: their members; 3: numbers
// in brackets.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
public:
    HeaderReader(SafetensorsHeader& header, const std::string& file)
        : header_(header), file_(file) {}

    bool start_object(std::size_t) override {
        if (depth_ >= 2) fail("an object where a value was expected");
        if (depth_ == 1 && !in_metadata_) header_.tensors.emplace_back().name = name_;
        ++depth_;
        return true;
    }
    bool end_object() override {
        if (depth_-- < 2) return true;
        if (!in_metadata_ && !(has_dtype_ && has_shape_ && has_offsets_)) {
            fail("dtype, shape and data_offsets must be given");
        }
        in_metadata_ = has_dtype_ = has_shape_ = has_offsets_ = false;
        member_.clear();
        return true;
    }
    bool key(string_t& key) override {
        if (depth_ == 1) {
            name_ = key;
            in_metadata_ = key == kMetadata;
            if (!names_.insert(key).second) fail("the name appears twice");
            return true;
        }
        member_ = key;
        if (in_metadata_) {
            if (!header_.metadata.emplace(key, "").second) fail("the key appears twice");
            return true;
        }
        bool* has = key == "dtype"          ? &has_dtype_
                    : key == "shape"        ? &has_shape_
                    : key == "data_offsets" ? &has_offsets_
                                            : nullptr;
        if (has == nullptr) fail("the member does not belong to the format");
        if (std::exchange(*has, true)) fail("the member appears twice");
        return true;
    }
    bool start_array(std::size_t) override {
        if (depth_ != 2 || in_metadata_ || member_ == "dtype") fail("unexpected '['");
        ++depth_;
        offsets_ = 0;
        return true;
    }
    bool end_array() override {
        --depth_;
        if (member_ == "data_offsets" && offsets_ != 2) {
            fail(fmt::format("{} numbers found, 2 expected", offsets_));
        }
        return true;
    }
    bool string(string_t& text) override {
        if (depth_ == 2 && in_metadata_) {
            header_.metadata[member_] = text;
        } else if (depth_ == 2 && member_ == "dtype") {
            if (find_dtype(text) == nullptr) {
                std::vector<std::string_view> names;
                for (const SafetensorsDtype& row : safetensors_dtypes()) names.push_back(row.name);
                throw Error(
                    ErrorCode::kData,
                    fmt::format("{}: tensor '{}': dtype '{}' is unknown", file_, name_, text),
                    fmt::format("known are {}", fmt::join(names, ", ")));
            }
            tensor().dtype = text;
        } else {
            fail("unexpected text");
        }
        return true;
    }
    bool number_unsigned(number_unsigned_t number) override {
        if (depth_ != 3) fail(fmt::format("unexpected number {}", number));
        if (number > static_cast<std::uint64_t>(INT64_MAX)) {
            fail(fmt::format("{} is larger than {}", number, INT64_MAX));
        }
        if (member_ == "shape") {
            tensor().shape.push_back(static_cast<std::int64_t>(number));
        } else {
            if (offsets_ < 2) (offsets_ == 0 ? tensor().begin : tensor().end) = number;
            ++offsets_;
        }
        return true;
    }
    bool number_integer(number_integer_t number) override {
        fail(fmt::format("{} is negative", number));
    }
    bool number_float(number_float_t, const string_t& text) override {
        fail(fmt::format("{} is not a whole number below 2^63", text));
    }
    bool null() override { fail("unexpected null"); }
    bool boolean(bool) override { fail("unexpected true or false"); }
    bool binary(binary_t&) override { fail("unexpected binary value"); }
    bool parse_error(std::size_t, const std::string&,
                     const nlohmann::json::exception& error) override {
        // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
        std::string_view message = error.what();
        const std::size_t tag = message.find("] ");
        if (tag != std::string_view::npos) message.remove_prefix(tag + 2);
        throw Error(ErrorCode::kData, fmt::format("{}: header: {}", file_, message), kDamaged);
    }

private:
    TensorInfo& tensor() { return header_.tensors.back(); }

    [[noreturn]] void fail(const std::string& message) const {
        std::string where = file_ + ": ";
        if (depth_ == 0 || (depth_ == 1 && name_.empty())) {
            where += "header";
        } else if (in_metadata_) {
            where += kMetadata;
        } else {
            where += fmt::format("tensor '{}'", name_);
        }
        if (depth_ >= 2 && !member_.empty()) where += ": " + member_;
        throw Error(ErrorCode::kData, fmt::format("{}: {}", where, message), kDamaged);
    }

    SafetensorsHeader& header_;
    const std::string& file_;
    std::set<std::string> names_;
    std::string name_, member_;
    int depth_ = 0, offsets_ = 0;
    bool in_metadata_ = false, has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
};

// Each tensor for itself: its range lies in the data and has the length that dtype and shape need.
void check_tensor(const TensorInfo& tensor, std::uint64_t data_bytes, const std::string& file) {
    const std::string where = fmt::format("{}: tensor '{}' with data_offsets [{}, {}]", file,
                                          tensor.name, tensor.begin, tensor.end);
    const auto fail = [&](const std::string& message) {
        throw Error(ErrorCode::kData, fmt::format("{}: {}", where, message), kDamaged);
    };
    if (tensor.begin > tensor.end) fail("they run backwards");
    if (tensor.end > data_bytes) {
        fail(fmt::format("the file holds {} bytes of data", data_bytes));
    }
    const std::uint64_t needed = storage_bytes(*find_dtype(tensor.dtype), tensor.shape, where);
    if (needed != tensor.bytes()) {
        fail(fmt::format("shape [{}] of {} needs {} bytes, the offsets give {}",
                         fmt::join(tensor.shape, ", "), tensor.dtype, needed, tensor.bytes()));
    }
}

// All together: no overlap, no hole, nothing behind the last.
void check_cover(const std::vector<TensorInfo>& tensors, std::uint64_t data_bytes,
                 const std::string& file) {
    std::uint64_t end = 0;
    std::string before = "the start";
    for (const TensorInfo& tensor : tensors) {
        if (tensor.begin != end) {
            const bool overlap = tensor.begin < end;
            throw Error(
                ErrorCode::kData,
                fmt::format("{}: tensor '{}' begins at byte {} but {} ends at byte {}: {} bytes {}",
                            file, tensor.name, tensor.begin, before, end,
                            overlap ? end - tensor.begin : tensor.begin - end,
                            overlap ? "overlap" : "belong to no tensor"),
                kDamaged);
        }
        end = tensor.end;
        before = fmt::format("'{}'", tensor.name);
    }
    if (end != data_bytes) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: the tensors end at byte {} of the data, the file holds {}: {} "
                                "bytes belong to no tensor",
                                file, end, data_bytes, data_bytes - end),
                    kDamaged);
    }
}

}  // namespace

const std::vector<SafetensorsDtype>& safetensors_dtypes() {
    using at::ScalarType;
    static const std::vector<SafetensorsDtype> all{
        {"BOOL", 8, ScalarType::Bool},
        {"F4", 4, ScalarType::Float4_e2m1fn_x2},
        {"U8", 8, ScalarType::Byte},
        {"I8", 8, ScalarType::Char},
        {"F8_E5M2", 8, ScalarType::Float8_e5m2},
        {"F8_E4M3", 8, ScalarType::Float8_e4m3fn},
        {"F8_E8M0", 8, ScalarType::Float8_e8m0fnu},
        {"I16", 16, ScalarType::Short},
        {"F16", 16, ScalarType::Half},
        {"BF16", 16, ScalarType::BFloat16},
        {"I32", 32, ScalarType::Int},
        {"F32", 32, ScalarType::Float},
        {"F64", 64, ScalarType::Double},
        {"I64", 64, ScalarType::Long},
    };
    return all;
}

const SafetensorsDtype* find_dtype(std::string_view name) {
    for (const SafetensorsDtype& row : safetensors_dtypes()) {
        if (row.name == name) return &row;
    }
    return nullptr;
}

const SafetensorsDtype* find_dtype(at::ScalarType type) {
    for (const SafetensorsDtype& row : safetensors_dtypes()) {
        if (row.type == type) return &row;
    }
    return nullptr;
}

std::uint64_t storage_bytes(const SafetensorsDtype& dtype, const std::vector<std::int64_t>& shape,
                            const std::string& where) {
    const auto fail = [&](const std::string& message) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: shape [{}] of {}: {}", where, fmt::join(shape, ", "),
                                dtype.name, message),
                    kDamaged);
    };
    // What LibTorch's operators can handle.
    if (shape.size() > 64) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: {} dimensions, at most 64 are supported", where, shape.size()),
                    kDamaged);
    }
    // The bound is on the product of the non-zero dimensions, because strides are made of these.
    std::int64_t bits = dtype.bits;
    bool empty = false;
    for (const std::int64_t dim : shape) {
        if (dim < 0) fail(fmt::format("dimension {} is negative", dim));
        empty = empty || dim == 0;
        if (__builtin_mul_overflow(bits, std::max<std::int64_t>(dim, 1), &bits)) {
            fail("more than 2^63 bits");
        }
    }
    if (dtype.bits < 8 && (shape.empty() || shape.back() % (8 / dtype.bits) != 0)) {
        fail(
            fmt::format("the last dimension must be a multiple of {}, so that rows are whole bytes",
                        8 / dtype.bits));
    }
    return empty ? 0 : static_cast<std::uint64_t>(bits) / 8;
}

SafetensorsHeader parse_header(std::string_view text, std::uint64_t data_bytes,
                               const std::string& file) {
    // The JSON library skips white space in front and takes a zero byte for the end of the text.
    const std::size_t last = text.find_last_not_of(' ');
    if (text.empty() || text.front() != '{' || text[last] != '}' ||
        text.find('\0') != std::string_view::npos) {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: the header is not a JSON object padded with spaces", file),
                    "check that this is a safetensors file");
    }
    SafetensorsHeader header;
    HeaderReader reader(header, file);
    nlohmann::json::sax_parse(text.begin(), text.end(), &reader);

    for (const TensorInfo& tensor : header.tensors) check_tensor(tensor, data_bytes, file);
    std::sort(header.tensors.begin(), header.tensors.end(),
              [](const TensorInfo& a, const TensorInfo& b) {
                  return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
              });
    check_cover(header.tensors, data_bytes, file);
    return header;
}

std::string make_header(std::vector<TensorInfo>& tensors, const Metadata& metadata) {
    std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
        const auto *a_type = find_dtype(a.dtype), *b_type = find_dtype(b.dtype);
        return a_type != b_type ? a_type > b_type : a.name < b.name;
    });
    std::string text(8, '\0');
    text += '{';
    try {
        if (!metadata.empty()) {
            text += fmt::format("\"{}\":{}", kMetadata, nlohmann::json(metadata).dump());
        }
        std::uint64_t offset = 0;
        for (TensorInfo& tensor : tensors) {
            const std::uint64_t bytes =
                storage_bytes(*find_dtype(tensor.dtype), tensor.shape, tensor.name);
            tensor.begin = offset;
            tensor.end = offset += bytes;
            text +=
                fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                            text.size() > 9 ? "," : "", nlohmann::json(tensor.name).dump(),
                            tensor.dtype, fmt::join(tensor.shape, ","), tensor.begin, tensor.end);
        }
    } catch (const nlohmann::json::type_error&) {
        throw Error(ErrorCode::kUsage, "a name or a text of the metadata is not UTF-8",
                    "use UTF-8 for names of tensors");
    }
    text += '}';
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = text.size() - 8;
    for (int i = 0; i < 8; ++i) text[i] = static_cast<char>(length >> (8 * i));
    return text;
}

}  // namespace subbyte::io
