// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace subbyte {

using PhiloxBlock = std::array<std::uint32_t, 4>;

// Philox4x32-10: the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel Random
// Numbers: As Easy as 1, 2, 3" (SC'11). Equal (counter, key) give equal bits on every machine.
inline PhiloxBlock philox4x32(PhiloxBlock counter, std::array<std::uint32_t, 2> key) {
    constexpr std::uint32_t kMul0 = 0xD2511F53, kMul1 = 0xCD9E8D57;
    constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = std::uint64_t{kMul0} * counter[0];
        const std::uint64_t p1 = std::uint64_t{kMul1} * counter[2];
        counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0],
                   static_cast<std::uint32_t>(p1),
                   static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1],
                   static_cast<std::uint32_t>(p0)};
        key[0] += kWeyl0;
        key[1] += kWeyl1;
    }
    return counter;
}

// Address of a stream of noise. Noise is looked up by address, never drawn in order, so that
// neither the number of threads nor a resume changes it.
struct NoiseAddress {
    std::uint64_t seed = 0;
    std::uint32_t step = 0;
    std::uint32_t layer = 0;  // ordinal of the layer in its model
    std::uint16_t role =
        0;  // which operand of which GEMM, and which micro-batch (see ops/noise_role.h)
};

// Block `index` (< 2^48) of the stream: 128 bits.
inline PhiloxBlock noise_block(const NoiseAddress& address, std::uint64_t index) {
    return philox4x32(
        {static_cast<std::uint32_t>(index),
         static_cast<std::uint32_t>((index >> 32) & 0xFFFF) | (std::uint32_t{address.role} << 16),
         address.layer, address.step},
        {static_cast<std::uint32_t>(address.seed), static_cast<std::uint32_t>(address.seed >> 32)});
}

// The 16 noise bits of one element: half-word (element mod 8) of block (element / 8), low half
// first.
inline std::uint16_t noise_bits16(const NoiseAddress& address, std::uint64_t element) {
    const PhiloxBlock block = noise_block(address, element / 8);
    return static_cast<std::uint16_t>(block[(element % 8) / 2] >> (16 * (element % 2)));
}

}  // namespace subbyte
