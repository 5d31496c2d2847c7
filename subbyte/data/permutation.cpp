// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/permutation.h"

#include <bit>

#include "subbyte/core/philox.h"

namespace subbyte::data {
namespace {

// Role of the data order among the users of addressed noise: no GEMM operand has it.
constexpr std::uint16_t kOrderRole = 0xFFFF;
constexpr std::uint32_t kRounds = 6;

}  // namespace

std::int64_t shuffled(std::int64_t index, std::int64_t count, std::uint64_t seed,
                      std::uint32_t epoch) {
    const int bits =
        (std::bit_width(static_cast<std::uint64_t>(count - 1)) + 1) / 2;  // of one half
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    auto value = static_cast<std::uint64_t>(index);
    do {  // at most four times the range: about four turns at worst on average
        std::uint64_t left = value >> bits, right = value & mask;
        for (std::uint32_t round = 0; round < kRounds; ++round) {
            const NoiseAddress address{seed, epoch, round, kOrderRole};
            const std::uint64_t next = left ^ (noise_block(address, right)[0] & mask);
            left = right;
            right = next;
        }
        value = left << bits | right;
    } while (value >= static_cast<std::uint64_t>(count));
    return static_cast<std::int64_t>(value);
}

}  // namespace subbyte::data
