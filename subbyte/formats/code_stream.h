// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace subbyte::formats {

// A row of codes is a little-endian stream of bits: code c holds bits [c * bits, (c + 1) * bits),
// counted from the low end of the first byte. So 4-bit codes go two per byte, first one low, 8-bit
// codes one per byte, and 6-bit codes four to three bytes. `bits` <= 16.

// Adds a code to a row of zeros.
inline void store_code(std::uint8_t* row, int bits, std::int64_t col, std::uint32_t code) {
    std::int64_t bit = col * bits;
    for (int left = bits; left > 0;) {
        const int offset = static_cast<int>(bit % 8), taken = left < 8 - offset ? left : 8 - offset;
        row[bit / 8] |= static_cast<std::uint8_t>((code & ((1u << taken) - 1)) << offset);
        code >>= taken;
        bit += taken;
        left -= taken;
    }
}

inline std::uint32_t load_code(const std::uint8_t* row, int bits, std::int64_t col) {
    const std::int64_t bit = col * bits;
    std::uint32_t code = 0;
    for (int done = 0; done < bits;) {
        const std::int64_t at = bit + done;
        const int offset = static_cast<int>(at % 8), left = bits - done;
        const int taken = left < 8 - offset ? left : 8 - offset;
        code |= ((std::uint32_t{row[at / 8]} >> offset) & ((1u << taken) - 1)) << done;
        done += taken;
    }
    return code;
}

}  // namespace subbyte::formats
