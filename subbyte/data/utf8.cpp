// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/utf8.h"

#include <cstdint>
#include <cstring>

namespace subbyte::data {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

std::size_t utf8_character(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned lead = byte(0);
    if (lead < 0x80) return 1;
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if (!is_continuation(text[i])) return 0;
    }
    // The second byte excludes overlong forms, surrogates and what lies beyond U+10FFFF.
    if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) ||
        (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) {
        return 0;
    }
    return length;
}

std::size_t find_invalid_utf8(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        // Eight ASCII bytes at a time: most text is that.
        std::uint64_t word = 0;
        if (text.size() - at >= sizeof word) {
            std::memcpy(&word, text.data() + at, sizeof word);
            if ((word & 0x8080808080808080) == 0) {
                at += sizeof word;
                continue;
            }
        }
        const std::size_t length = utf8_character(text.substr(at));
        if (length == 0) return at;
        at += length;
    }
    return std::string_view::npos;
}

std::string repair_utf8(std::string_view text) {
    std::string good;
    while (!text.empty()) {
        const std::size_t bad = find_invalid_utf8(text);
        good += text.substr(0, bad);
        if (bad == std::string_view::npos) break;
        good += "\xEF\xBF\xBD";
        text.remove_prefix(bad + 1);
    }
    return good;
}

std::size_t utf8_boundary(std::string_view text, std::size_t at) {
    if (at >= text.size()) return text.size();
    while (at > 0 && is_continuation(text[at])) --at;
    return at;
}

}  // namespace subbyte::data
