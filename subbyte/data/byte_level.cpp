// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/byte_level.h"

namespace subbyte::data {
namespace {

bool stands_for_itself(int byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::string two_byte_utf8(int code) {
    if (code < 0x80) return std::string(1, static_cast<char>(code));
    return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// Code point -> byte, -1 elsewhere. The last letter is U+0143.
std::array<int, 0x144> bytes_by_letter() {
    std::array<int, 0x144> table{};
    table.fill(-1);
    int next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
        table[static_cast<std::size_t>(stands_for_itself(byte) ? byte : next++)] = byte;
    }
    return table;
}

}  // namespace

const std::array<std::string, 256>& byte_letters() {
    static const std::array<std::string, 256> letters = [] {
        std::array<std::string, 256> all;
        const auto table = bytes_by_letter();
        for (std::size_t code = 0; code < table.size(); ++code) {
            if (table[code] >= 0) {
                all[static_cast<std::size_t>(table[code])] = two_byte_utf8(static_cast<int>(code));
            }
        }
        return all;
    }();
    return letters;
}

std::optional<std::string> bytes_from_letters(std::string_view letters) {
    static const auto table = bytes_by_letter();
    std::string bytes;
    for (std::size_t i = 0; i < letters.size(); ++i) {
        std::size_t code = static_cast<unsigned char>(letters[i]);
        if (code >= 0xC0 && code < 0xE0 && i + 1 < letters.size()) {
            code = (code & 0x1F) << 6 | (static_cast<unsigned char>(letters[++i]) & 0x3F);
        } else if (code >= 0x80) {
            return std::nullopt;
        }
        if (code >= table.size() || table[code] < 0) return std::nullopt;
        bytes += static_cast<char>(table[code]);
    }
    return bytes;
}

}  // namespace subbyte::data
