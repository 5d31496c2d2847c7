// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/core/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace subbyte {
namespace {

// Known-answer tests that come with Random123 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
    EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
              (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    const std::uint32_t ones = 0xffffffff;
    EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
              (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(
        philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
        (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryPartOfAnAddressChangesTheBlock) {
    const NoiseAddress base{1, 2, 3, 4};
    std::set<PhiloxBlock> blocks{noise_block(base, 5)};
    NoiseAddress address = base;
    address.seed = 9;
    blocks.insert(noise_block(address, 5));
    address = base;
    address.seed = base.seed | (std::uint64_t{1} << 40);
    blocks.insert(noise_block(address, 5));
    address = base;
    address.step = 9;
    blocks.insert(noise_block(address, 5));
    address = base;
    address.layer = 9;
    blocks.insert(noise_block(address, 5));
    address = base;
    address.role = 9;
    blocks.insert(noise_block(address, 5));
    blocks.insert(noise_block(base, 6));
    blocks.insert(noise_block(base, 5 + (std::uint64_t{1} << 32)));
    EXPECT_EQ(blocks.size(), 8u);
}

TEST(Philox, ElementsReadTheHalfWordsOfTheirBlockInOrder) {
    const NoiseAddress address{11, 12, 13, 14};
    for (std::uint64_t element : {0, 1, 7, 8, 123456}) {
        const PhiloxBlock block = noise_block(address, element / 8);
        const std::uint32_t word = block[(element % 8) / 2];
        EXPECT_EQ(noise_bits16(address, element), element % 2 == 0 ? word & 0xFFFF : word >> 16);
    }
}

}  // namespace
}  // namespace subbyte
