// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory of big tensors: blocks come back, nothing is lost, and no more is kept than promised.
#include "subbyte/ops/block_cache.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

namespace subbyte::ops {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

at::Tensor of_bytes(std::int64_t bytes) {
    return at::empty({bytes}, at::TensorOptions().dtype(at::kByte));
}

class BlockCache : public testing::Test {
protected:
    BlockCache() { keep_tensor_blocks(); }
};

TEST_F(BlockCache, TheNextTensorOfASizeGetsTheSameBlock) {
    const void* first;
    {
        at::Tensor a = of_bytes(5 * kMiB);
        a.fill_(7);
        first = a.const_data_ptr();
        EXPECT_GE(block_cache_use().live, 5 * kMiB);
    }
    EXPECT_GE(block_cache_use().kept, 5 * kMiB);
    const at::Tensor b = of_bytes(5 * kMiB - 100);
    EXPECT_EQ(b.const_data_ptr(), first);
}

TEST_F(BlockCache, BlocksAreCutAndJoinedAgain) {
    // The largest block of this process so far, then three parts of it, then the whole.
    const void* whole;
    {
        const at::Tensor a = of_bytes(300 * kMiB);
        whole = a.const_data_ptr();
    }
    const std::int64_t total = block_cache_use().live + block_cache_use().kept;
    {
        at::Tensor a = of_bytes(100 * kMiB), b = of_bytes(100 * kMiB), c = of_bytes(90 * kMiB);
        EXPECT_EQ(block_cache_use().live + block_cache_use().kept, total);
        EXPECT_EQ(a.const_data_ptr(), whole);
        b.fill_(3);
        a.reset();
        c.reset();
        EXPECT_EQ(b[100 * kMiB - 1].item<int>(), 3);
    }
    const at::Tensor again = of_bytes(300 * kMiB);
    EXPECT_EQ(again.const_data_ptr(), whole);
}

// Sizes and lifetimes at random: contents stay, blocks never overlap, and all of it comes back.
TEST_F(BlockCache, RandomTrafficKeepsContents) {
    const std::int64_t live = block_cache_use().live;
    std::vector<at::Tensor> tensors(40);
    std::vector<int> marks(40);
    std::uint32_t state = 12345;
    const auto next = [&](std::uint32_t range) {
        state = state * 1664525u + 1013904223u;
        return (state >> 8) % range;
    };
    for (int i = 0; i < 3000; ++i) {
        const std::size_t at = next(40);
        if (tensors[at].defined()) {
            ASSERT_EQ(tensors[at][0].item<int>(), marks[at]);
            ASSERT_EQ(tensors[at][tensors[at].numel() - 1].item<int>(), marks[at]);
            tensors[at].reset();
        } else {
            marks[at] = static_cast<int>(next(250));
            tensors[at] = of_bytes(kMiB + next(9 * kMiB));
            tensors[at][0] = marks[at];
            tensors[at][tensors[at].numel() - 1] = marks[at];
        }
    }
    tensors.clear();
    EXPECT_EQ(block_cache_use().live, live);
}

TEST_F(BlockCache, KeepsNoMoreThanWasInUse) {
    { const at::Tensor a = of_bytes(64 * kMiB), b = of_bytes(64 * kMiB); }
    // Other sizes: each new block has to push the old ones out.
    for (std::int64_t size = 30; size < 60; size += 7) {
        const at::Tensor c = of_bytes(size * kMiB), d = of_bytes((size + 3) * kMiB);
        const BlockCacheUse use = block_cache_use();
        EXPECT_LE(static_cast<double>(use.live + use.kept),
                  1.03 * static_cast<double>(use.peak_live) + 1);
    }
}

TEST_F(BlockCache, SmallAndEmptyTensorsAreLeftToTheCLibrary) {
    const std::int64_t live = block_cache_use().live;
    const at::Tensor small = of_bytes(1000), none = of_bytes(0);
    EXPECT_EQ(block_cache_use().live, live);
    EXPECT_EQ(small.numel(), 1000);
}

TEST_F(BlockCache, NumbersSurviveAndStorageGrows) {
    at::Tensor a = at::arange(3 * kMiB / 4, at::kFloat);
    a.resize_({4 * kMiB});
    EXPECT_EQ(a[12345].item<float>(), 12345.0f);
}

TEST_F(BlockCache, ThreadsMayFreeEachOthersTensors) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([t] {
            for (int i = 0; i < 50; ++i) {
                at::Tensor a = of_bytes((1 + (i + t) % 5) * kMiB);
                a.fill_(t);
                at::Tensor moved;
                std::thread([&] { moved = std::move(a); }).join();
                ASSERT_EQ(moved[moved.numel() - 1].item<int>(), t);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

TEST_F(BlockCache, TooMuchMemoryIsAnError) {
    EXPECT_THROW(of_bytes(std::int64_t{1} << 60), std::exception);
    EXPECT_NO_THROW(of_bytes(2 * kMiB));
}

}  // namespace
}  // namespace subbyte::ops
