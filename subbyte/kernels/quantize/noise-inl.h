// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Noise words of stochastic rounding.
// Written once in the vocabulary of simd/*-inl.h, which must be included before; internal linkage,
// so that each instruction set gets its own copy.
#pragma once

#include <cstdint>

#include "subbyte/core/philox.h"

namespace subbyte::kernels {
namespace {

// Philox4x32-10 on kLanes blocks at once, the numbers of noise_block(). Each word sits in the low
// half of a 64-bit lane: a product leaves its low half in place and its high half one shift away,
// and what the upper halves hold is never read. Two vectors of kLanes / 2 blocks keep the
// multipliers busy.
struct PhiloxLanes {
    I c0, c1, c2, c3;

    void round(I m0, I m1, I k0, I k1) {
        const I p0 = mul_even(c0, m0), p1 = mul_even(c2, m1);
        c0 = xor3(shift_right64<32>(p1), c1, k0);
        c2 = xor3(shift_right64<32>(p0), c3, k1);
        c1 = p1;
        c3 = p0;
    }

    static PhiloxLanes start(const NoiseAddress& address, I index) {
        const I role = set(std::uint32_t{address.role} << 16);
        return {index, merge(set(0xFFFFu), shift_right64<32>(index), role), set(address.layer),
                set(address.step)};
    }

    // Blocks of the even 64-bit lanes at `out`, those of the odd lanes behind them.
    void store_blocks(std::uint16_t* out) const {
        const I w01 = interleave_low(c0, c1), w23 = interleave_low(c2, c3);
        store_int(out, unpack_low64(w01, w23));
        store_int(out + 2 * kLanes, unpack_high64(w01, w23));
    }
};

constexpr std::uint32_t kRounds = 10;

// The two keys of each round.
struct PhiloxKeys {
    I keys[kRounds][2];
    explicit PhiloxKeys(const NoiseAddress& address) {
        for (std::uint32_t round = 0; round < kRounds; ++round) {
            keys[round][0] = set(static_cast<std::uint32_t>(address.seed) + round * 0x9E3779B9u);
            keys[round][1] =
                set(static_cast<std::uint32_t>(address.seed >> 32) + round * 0xBB67AE85u);
        }
    }
};

inline void run_rounds(const PhiloxKeys& keys, PhiloxLanes& a, PhiloxLanes& b) {
    const I m0 = set(0xD2511F53u), m1 = set(0xCD9E8D57u);
#pragma GCC unroll 10
    for (std::uint32_t round = 0; round < kRounds; ++round) {
        a.round(m0, m1, keys.keys[round][0], keys.keys[round][1]);
        b.round(m0, m1, keys.keys[round][0], keys.keys[round][1]);
    }
}

// The words of the blocks that are numbered in the 64-bit lanes of `first`, then in those of
// `second`: one block per 32-bit lane, two noises of 16 bits per word.
inline void noise_words(const NoiseAddress& address, const PhiloxKeys& keys, I first, I second,
                        I words[4]) {
    PhiloxLanes a = PhiloxLanes::start(address, first), b = PhiloxLanes::start(address, second);
    run_rounds(keys, a, b);
    words[0] = low_halves(a.c0, b.c0);
    words[1] = low_halves(a.c1, b.c1);
    words[2] = low_halves(a.c2, b.c2);
    words[3] = low_halves(a.c3, b.c3);
}

void noise_row(const NoiseAddress& address, std::uint64_t first_block, std::int64_t blocks,
               std::uint16_t* out) {
    // The order in which blocks are dealt to lanes makes what store_blocks() writes contiguous.
    constexpr int kQuarter = kLanes / 4;  // 128-bit groups of a vector
    std::uint32_t order[kLanes] = {};
    for (int lane = 0; lane < kLanes / 2; ++lane) {
        order[2 * lane] = static_cast<std::uint32_t>(kQuarter * (lane % 2) + lane / 2);
    }
    const I lane_order = load_int(order);
    const PhiloxKeys keys(address);
    const auto start = [&](std::uint64_t block) {
        return PhiloxLanes::start(address, add64(set64(block), lane_order));
    };
    for (std::int64_t done = 0; done < blocks; done += kLanes) {
        const std::uint64_t index = first_block + static_cast<std::uint64_t>(done);
        std::uint16_t* const target = out + 8 * done;
        PhiloxLanes a = start(index), b = start(index + kLanes / 2);
        run_rounds(keys, a, b);
        a.store_blocks(target);
        b.store_blocks(target + 4 * kLanes);
    }
}

}  // namespace
}  // namespace subbyte::kernels
