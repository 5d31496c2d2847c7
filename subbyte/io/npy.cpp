// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/npy.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "subbyte/core/error.h"

namespace subbyte::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kLongestNpyHeader = 65536;  // far above any array without fields

struct DtypeName {
    std::string_view name;  // as NumPy writes it; '|': one byte has no order
    at::ScalarType type;
};
constexpr DtypeName kDtypes[] = {
    {"<f2", at::kHalf},   {"<f4", at::kFloat},  {"<f8", at::kDouble}, {"|i1", at::kChar},
    {"<i2", at::kShort},  {"<i4", at::kInt},    {"<i8", at::kLong},   {"|u1", at::kByte},
    {"<u2", at::kUInt16}, {"<u4", at::kUInt32}, {"<u8", at::kUInt64}, {"|b1", at::kBool},
};

struct Header {
    at::ScalarType type = at::kFloat;
    bool fortran = false;
    std::vector<std::int64_t> shape;
};

// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: each key once, in any order.
class HeaderParser {
public:
    HeaderParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

    Header parse() {
        Header header;
        bool descr = false, order = false, shape = false;
        expect("{");
        while (!accept("}")) {
            const std::string_view key = quoted();
            expect(":");
            bool& seen = key == "descr" ? descr : key == "fortran_order" ? order : shape;
            if (seen || (&seen == &shape && key != "shape")) {
                fail(fmt::format("key '{}' is {}", key, seen ? "given twice" : "unknown"));
            }
            seen = true;
            if (&seen == &descr) {
                header.type = dtype(quoted());
            } else if (&seen == &order) {
                header.fortran = boolean();
            } else {
                header.shape = tuple();
            }
            if (!accept(",")) {
                expect("}");
                break;
            }
        }
        if (!descr || !order || !shape) fail("descr, fortran_order and shape must be given");
        skip_space();
        if (at_ != text_.size()) fail("something follows the closing brace");
        return header;
    }

private:
    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    }
    bool accept(std::string_view token) {
        skip_space();
        if (text_.substr(at_, token.size()) != token) return false;
        at_ += token.size();
        return true;
    }
    void expect(std::string_view token) {
        if (!accept(token)) fail(fmt::format("'{}' expected", token));
    }
    std::string_view quoted() {
        const char* quote = accept("'") ? "'" : "\"";
        if (*quote == '"') expect(quote);
        const std::size_t end = text_.find(*quote, at_);
        if (end == std::string_view::npos) fail("a text without closing quote");
        const std::string_view result = text_.substr(at_, end - at_);
        at_ = end + 1;
        return result;
    }
    bool boolean() {
        if (accept("True")) return true;
        if (!accept("False")) fail("True or False expected");
        return false;
    }
    std::int64_t number() {
        skip_space();
        const std::size_t begin = at_;
        std::int64_t value = 0;
        for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
            if (__builtin_mul_overflow(value, 10, &value) ||
                __builtin_add_overflow(value, text_[at_] - '0', &value)) {
                fail("a dimension is larger than 2^63");
            }
        }
        if (at_ == begin) fail("a dimension of 0 or more expected");
        return value;
    }
    // () or (3,) or (3, 4) or (3, 4,); (3) is a number in Python and no shape.
    std::vector<std::int64_t> tuple() {
        std::vector<std::int64_t> shape;
        expect("(");
        while (!accept(")")) {
            shape.push_back(number());
            if (accept(",")) continue;
            if (shape.size() == 1) fail("',' expected");
            expect(")");
            break;
        }
        return shape;
    }
    at::ScalarType dtype(std::string_view name) const {
        for (const DtypeName& row : kDtypes) {
            if (row.name == name) return row.type;
        }
        std::vector<std::string_view> names;
        for (const DtypeName& row : kDtypes) names.push_back(row.name);
        throw Error(
            ErrorCode::kData, fmt::format("{}: dtype '{}' is not supported", file_, name),
            fmt::format("convert the array with NumPy to one of {}", fmt::join(names, " ")));
    }
    [[noreturn]] void fail(const std::string& message) const {
        throw Error(ErrorCode::kData,
                    fmt::format("{}: NumPy header, at character {}: {}", file_, at_, message),
                    "check that this file was written by numpy.save");
    }

    std::string_view text_;
    const std::string& file_;
    std::size_t at_ = 0;
};

// Bytes of the array. Error kData when the product of the non-zero dimensions leaves 63 bits, or
// when there are more dimensions than LibTorch (and NumPy) can handle.
std::uint64_t array_bytes(const Header& header, const std::string& file) {
    if (header.shape.size() > 64) {
        throw Error(
            ErrorCode::kData,
            fmt::format("{}: {} dimensions, at most 64 are supported", file, header.shape.size()),
            "the file is damaged; fetch or save it again");
    }
    std::int64_t bytes = static_cast<std::int64_t>(c10::elementSize(header.type));
    bool empty = false;
    for (const std::int64_t dim : header.shape) {
        empty = empty || dim == 0;
        if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(dim, 1), &bytes)) {
            throw Error(ErrorCode::kData,
                        fmt::format("{}: shape ({}) needs more than 2^63 bytes", file,
                                    fmt::join(header.shape, ", ")),
                        "the file is damaged; fetch or save it again");
        }
    }
    return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

std::vector<std::int64_t> reversed_axes(std::int64_t dims) {
    std::vector<std::int64_t> axes;
    for (std::int64_t i = dims - 1; i >= 0; --i) axes.push_back(i);
    return axes;
}

std::span<std::byte> npy_bytes(const at::Tensor& tensor) {
    return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

}  // namespace

at::Tensor read_npy(const std::filesystem::path& path) {
    const InputFile file(path);
    const std::string name = path.string();
    const auto fail = [&](const std::string& message) {
        throw Error(ErrorCode::kData, fmt::format("{}: {}", name, message),
                    "check that this file was written by numpy.save and is complete");
    };
    const auto read = [&](std::uint64_t offset, std::size_t count) {
        std::string text(count, '\0');
        file.read(offset, std::as_writable_bytes(std::span(text)));
        return text;
    };
    if (file.size() < 12) fail(fmt::format("{} bytes are too few for a .npy file", file.size()));
    const std::string start = read(0, 12);
    if (!start.starts_with(kMagic)) fail("not a .npy file");
    const int major = static_cast<unsigned char>(start[6]);
    if (major != 1 && major != 2) fail(fmt::format(".npy version {}, 1 and 2 are read", major));
    const std::uint64_t header_begin = major == 1 ? 10 : 12;
    std::uint64_t length = 0;
    for (std::uint64_t i = header_begin; i-- > 8;) {
        length = length << 8 | static_cast<unsigned char>(start[i]);
    }
    const std::uint64_t room =
        std::min<std::uint64_t>(file.size() - header_begin, kLongestNpyHeader);
    if (length > room) fail(fmt::format("header length {} is larger than {}", length, room));

    const std::string text = read(header_begin, length);
    const Header header = HeaderParser(text, name).parse();
    const std::uint64_t needed = array_bytes(header, name);
    const std::uint64_t found = file.size() - header_begin - length;
    if (needed != found) {
        fail(fmt::format("shape ({}) of {} needs {} bytes, the file holds {}",
                         fmt::join(header.shape, ", "), c10::toString(header.type), needed, found));
    }

    std::vector<std::int64_t> stored = header.shape;
    if (header.fortran) std::reverse(stored.begin(), stored.end());
    at::Tensor result = at::empty(stored, at::TensorOptions().dtype(header.type));
    const std::span<std::byte> bytes = npy_bytes(result);
    file.read(header_begin + length, bytes);
    if (header.type == at::kBool &&
        std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; })) {
        fail("a bool is neither 0 nor 1");
    }
    if (!header.fortran) return result;
    return result.permute(reversed_axes(result.dim())).contiguous();
}

WrittenFile write_npy(const std::filesystem::path& path, const at::Tensor& tensor) {
    const auto fail = [&](const std::string& message) {
        throw Error(ErrorCode::kUsage, fmt::format("cannot write '{}': {}", path.string(), message),
                    "convert the tensor first");
    };
    if (!tensor.defined() || tensor.layout() != at::kStrided) fail("the tensor is not dense");
    const auto* row = std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const auto& dtype) {
        return dtype.type == tensor.scalar_type();
    });
    if (row == std::end(kDtypes)) {
        fail(fmt::format("NumPy has no {}", c10::toString(tensor.scalar_type())));
    }
    at::Tensor values = tensor.detach().cpu();
    const at::Tensor transposed = values.permute(reversed_axes(values.dim()));
    const bool fortran = !values.is_contiguous() && transposed.is_contiguous();
    values = fortran ? transposed : values.contiguous();

    std::string header(kMagic);
    header += std::string("\x01\x00\x00\x00", 4);
    header += fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}{}), }}", row->name,
                          fortran ? "True" : "False", fmt::join(tensor.sizes(), ", "),
                          tensor.dim() == 1 ? "," : "");
    // The data begin at a multiple of 64 bytes; the header ends with a newline.
    header.resize((header.size() + 1 + 63) / 64 * 64, ' ');
    header.back() = '\n';
    const std::size_t length = header.size() - 10;
    if (length > 65535) fail("the shape is too long for a .npy header");
    header[8] = static_cast<char>(length & 0xFF);
    header[9] = static_cast<char>(length >> 8);

    AtomicFile file(path, header.size() + values.nbytes());
    file.write(header);
    file.write(npy_bytes(values));
    return file.commit();
}

}  // namespace subbyte::io
