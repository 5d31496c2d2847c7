// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace subbyte::data {

// Random access to a shuffled order without holding it: element `index` of the order of
// 0 .. count - 1 that belongs to (seed, epoch). "Swap-or-not" with Philox as round function (Hoang,
// Morris and Rogaway, "An Enciphering Scheme Based on a Card Shuffle", CRYPTO 2012), which is even
// for small counts too, where a Feistel network is not. Preconditions: 0 <= index < count < 2^62.
std::int64_t shuffled(std::int64_t index, std::int64_t count, std::uint64_t seed,
                      std::uint32_t epoch);

}  // namespace subbyte::data
