// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "subbyte/formats/code_stream.h"

namespace subbyte::kernels {

// Bytes with one 6-bit code each to four codes per three bytes (formats/code_stream.h), and back.
// What is left of the last byte is 0.
inline void pack_sixes(const std::uint8_t* codes, std::int64_t count, std::uint8_t* packed) {
    std::int64_t c = 0;
    for (; c + 4 <= count; c += 4, packed += 3) {
        const std::uint32_t four = codes[c] | codes[c + 1] << 6 | codes[c + 2] << 12 |
                                   static_cast<std::uint32_t>(codes[c + 3]) << 18;
        packed[0] = static_cast<std::uint8_t>(four);
        packed[1] = static_cast<std::uint8_t>(four >> 8);
        packed[2] = static_cast<std::uint8_t>(four >> 16);
    }
    for (std::int64_t i = 0; i < (6 * (count - c) + 7) / 8; ++i) packed[i] = 0;
    for (std::int64_t i = c; i < count; ++i) formats::store_code(packed, 6, i - c, codes[i]);
}

inline void unpack_sixes(const std::uint8_t* packed, std::int64_t count, std::uint8_t* codes) {
    std::int64_t c = 0;
    for (; c + 4 <= count; c += 4, packed += 3) {
        const std::uint32_t four =
            packed[0] | packed[1] << 8 | static_cast<std::uint32_t>(packed[2]) << 16;
        codes[c] = four & 63;
        codes[c + 1] = four >> 6 & 63;
        codes[c + 2] = four >> 12 & 63;
        codes[c + 3] = static_cast<std::uint8_t>(four >> 18);
    }
    for (std::int64_t i = c; i < count; ++i) {
        codes[i] = static_cast<std::uint8_t>(formats::load_code(packed, 6, i - c));
    }
}

}  // namespace subbyte::kernels
