// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace subbyte::data {

// Random access to a shuffled order without holding it: element `index` of the order of 0 ..
// count-1 that belongs to (seed, epoch). A Feistel network with Philox as round function (Luby and
// Rackoff 1988; six rounds) over the next power of four, walked until it falls into the range
// (Black and Rogaway 2002, "cycle walking"). Preconditions: 0 <= index < count < 2^62.
std::int64_t shuffled(std::int64_t index, std::int64_t count, std::uint64_t seed,
                      std::uint32_t epoch);

}  // namespace subbyte::data
