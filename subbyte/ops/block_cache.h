// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace subbyte::ops {

// What the memory of big tensors comes to, in bytes.
struct BlockCacheUse {
    std::int64_t live = 0;       // in use by tensors
    std::int64_t peak_live = 0;  // most of it so far
    std::int64_t kept = 0;       // freed by tensors, kept for the next one
};

// Takes over the memory of LibTorch's CPU tensors of 1 MiB and more. Every training step asks for
// the same blocks: when they are freed they are kept, cut and joined for the next ones, instead of
// going back to the kernel, which costs 6-15 % of a step in page faults. Before more is mapped,
// free mappings are given back until the total is a few percent above the most that was ever in
// use. For the whole process; a program calls it at its start, a library leaves it alone.
// Idempotent.
void keep_tensor_blocks();

BlockCacheUse block_cache_use();

}  // namespace subbyte::ops
