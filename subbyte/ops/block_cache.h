// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace subbyte::ops {

// Size from which tensors are kept; smaller ones are the C library's.
inline constexpr std::size_t kCachedFrom = 1 << 20;

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

// Gives what smaller tensors have freed back to the kernel. The C library keeps it, and cannot use
// it for much once passes of another shape, such as those of a measurement, have cut it up.
void release_freed_memory();

}  // namespace subbyte::ops
