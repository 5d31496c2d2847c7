// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/io/json_file.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "subbyte/core/error.h"

namespace subbyte::io {
namespace {

constexpr int kDeepest = 500;

void name_non_finite(nlohmann::ordered_json& value) {
    if (value.is_structured()) {
        for (nlohmann::ordered_json& item : value) name_non_finite(item);
    } else if (value.is_number_float()) {
        const double number = value.get<double>();
        if (std::isnan(number)) value = "nan";
        if (std::isinf(number)) value = number > 0 ? "inf" : "-inf";
    }
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& file) {
    const auto fail = [&](std::string_view message) {
        throw Error(ErrorCode::kData, fmt::format("{}: not JSON: {}", file, message),
                    "correct the place, or make the file again");
    };
    // The JSON library would take a zero byte for the end of the text.
    const std::size_t zero = text.find('\0');
    if (zero != std::string_view::npos) fail(fmt::format("byte {} is zero", zero));
    const auto limit_depth = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
        if (depth > kDeepest) fail(fmt::format("nested deeper than {}", kDeepest));
        return true;
    };
    try {
        return nlohmann::json::parse(text, limit_depth);
    } catch (const nlohmann::json::exception& error) {
        // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
        std::string_view message = error.what();
        const std::size_t tag = message.find("] ");
        if (tag != std::string_view::npos) message.remove_prefix(tag + 2);
        fail(message);
    }
    return {};
}

nlohmann::json read_json(const std::filesystem::path& path) {
    return parse_json(read_text(path), path.string());
}

std::string dump_json(const nlohmann::ordered_json& value, int indent) {
    nlohmann::ordered_json copy = value;
    name_non_finite(copy);
    // Text that is not UTF-8 (a strange file name, say) must not cost the record it stands in.
    return copy.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

WrittenFile write_json(const std::filesystem::path& path, const nlohmann::ordered_json& value) {
    const std::string text = dump_json(value, 2) + "\n";
    AtomicFile file(path, text.size());
    file.write(text);
    return file.commit();
}

double number_of(const nlohmann::json& value, const std::string& where) {
    if (value.is_number()) return value.get<double>();
    if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (value == "-inf") return -std::numeric_limits<double>::infinity();
    throw Error(ErrorCode::kData,
                fmt::format("{}: a number was expected, found {}", where, value.type_name()));
}

}  // namespace subbyte::io
