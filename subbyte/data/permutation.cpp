// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/data/permutation.h"

#include <algorithm>
#include <bit>

#include "subbyte/core/philox.h"

namespace subbyte::data {
namespace {

// Role of the data order among the users of addressed noise: no GEMM operand has it.
constexpr std::uint16_t kOrderRole = 0xFFFF;

}  // namespace

std::int64_t shuffled(std::int64_t index, std::int64_t count, std::uint64_t seed,
                      std::uint32_t epoch) {
    const auto size = static_cast<std::uint64_t>(count);
    const auto rounds = 6 * static_cast<std::uint32_t>(std::bit_width(size));
    auto place = static_cast<std::uint64_t>(index);
    for (std::uint32_t round = 0; round < rounds; ++round) {
        // Each round pairs the places up by a random key; one random bit per pair swaps them or
        // not.
        const PhiloxBlock key = noise_block({seed, epoch, 2 * round, kOrderRole}, 0);
        const std::uint64_t sum = (std::uint64_t{key[1]} << 32 | key[0]) % size;
        const std::uint64_t partner = sum >= place ? sum - place : sum + size - place;
        const std::uint64_t pair = std::max(place, partner);
        if (noise_block({seed, epoch, 2 * round + 1, kOrderRole}, pair)[0] & 1) place = partner;
    }
    return static_cast<std::int64_t>(place);
}

}  // namespace subbyte::data
