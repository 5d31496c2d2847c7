// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/block_cache.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <unordered_map>

namespace subbyte::ops {
namespace {

constexpr std::size_t kGranule = 64 << 10;  // sizes are rounded up to this
constexpr std::size_t kHugeFrom = 8 << 20;  // mappings of this size ask for huge pages
constexpr std::size_t kMostCut = 8;         // small tensors do not break up the largest blocks
constexpr double kMostKept = 1.03;          // total over the peak of what was in use

// A stretch of one mapping, in use or free. Its neighbours in the mapping are before and behind it.
struct Block {
    char* data;
    std::size_t size;
    bool free = false;
    Block *before = nullptr, *behind = nullptr;

    bool whole() const { return before == nullptr && behind == nullptr; }
};

struct BySize {
    bool operator()(const Block* a, const Block* b) const {
        return a->size != b->size ? a->size < b->size : a->data < b->data;
    }
};

class BlockCache : public c10::Allocator {
public:
    static BlockCache& instance() {
        // Never destroyed: tensors with static lifetime return their blocks late.
        static BlockCache* const cache = new BlockCache;
        return *cache;
    }

    c10::DataPtr allocate(std::size_t bytes) override {
        void* const data = bytes < kCachedFrom ? c10::alloc_cpu(bytes) : take(bytes);
        return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* target, const void* source, std::size_t count) const override {
        default_copy_data(target, source, count);
    }

    BlockCacheUse use() {
        const std::lock_guard lock(mutex_);
        return {static_cast<std::int64_t>(live_), static_cast<std::int64_t>(peak_live_),
                static_cast<std::int64_t>(kept_bytes_)};
    }

private:
    static void release(void* data) {
        if (data != nullptr && !instance().give_back(data)) c10::free_cpu(data);
    }

    void* take(std::size_t bytes) {
        const std::size_t size = (bytes + kGranule - 1) / kGranule * kGranule;
        const std::lock_guard lock(mutex_);
        Block wanted{nullptr, size};
        const auto found = kept_.lower_bound(&wanted);  // the smallest that is large enough
        const bool fits = found != kept_.end() && (*found)->size / kMostCut <= size;
        Block* const block = fits ? *found : map(size, bytes);
        if (block->free) forget(block);
        if (block->size - size >= kCachedFrom) split(block, size);
        in_use_.emplace(block->data, block);
        live_ += block->size;
        peak_live_ = std::max(peak_live_, live_);
        return block->data;
    }

    bool give_back(void* data) {
        const std::lock_guard lock(mutex_);
        const auto found = in_use_.find(data);
        if (found == in_use_.end()) return false;
        Block* block = found->second;
        in_use_.erase(found);
        live_ -= block->size;
        if (block->before != nullptr && block->before->free) {
            block = block->before;
            forget(block);
            join(block);
        }
        if (block->behind != nullptr && block->behind->free) {
            forget(block->behind);
            join(block);
        }
        keep(block);
        return true;
    }

    void keep(Block* block) {
        block->free = true;
        kept_.insert(block);
        kept_bytes_ += block->size;
    }

    void forget(Block* block) {
        block->free = false;
        kept_.erase(block);
        kept_bytes_ -= block->size;
    }

    // Cuts what is behind the first `size` bytes off, as a free block.
    void split(Block* block, std::size_t size) {
        auto* const rest = new Block{block->data + size, block->size - size};
        rest->before = block;
        rest->behind = block->behind;
        if (rest->behind != nullptr) rest->behind->before = rest;
        block->behind = rest;
        block->size = size;
        keep(rest);
    }

    // Makes a block and the one behind it one.
    void join(Block* block) {
        Block* const next = block->behind;
        block->size += next->size;
        block->behind = next->behind;
        if (next->behind != nullptr) next->behind->before = block;
        delete next;
    }

    Block* map(std::size_t size, std::size_t bytes) {
        make_room(size);
        void* const data =
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED) {
            TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory: a tensor of ", bytes,
                             " bytes; ", live_, " bytes are in use");
        }
        if (size >= kHugeFrom) madvise(data, size, MADV_HUGEPAGE);
        return new Block{static_cast<char*>(data), size};
    }

    // Before a new mapping: gives back free ones, the largest first, until the total stays in
    // bounds. Free stretches between blocks in use stay.
    void make_room(std::size_t size) {
        const auto bound = static_cast<std::size_t>(
            kMostKept * static_cast<double>(std::max(peak_live_, live_ + size)));
        for (auto it = kept_.end(); it != kept_.begin() && live_ + size + kept_bytes_ > bound;) {
            Block* const block = *--it;
            if (!block->whole()) continue;
            it = kept_.erase(it);
            kept_bytes_ -= block->size;
            munmap(block->data, block->size);
            delete block;
        }
    }

    std::mutex mutex_;
    std::set<Block*, BySize> kept_;             // the free ones
    std::unordered_map<void*, Block*> in_use_;  // by address
    std::size_t live_ = 0, peak_live_ = 0, kept_bytes_ = 0;
};

}  // namespace

void keep_tensor_blocks() {
    static std::once_flag once;
    std::call_once(once, [] { c10::SetCPUAllocator(&BlockCache::instance(), /*priority=*/1); });
}

void release_freed_memory() { malloc_trim(0); }

BlockCacheUse block_cache_use() { return BlockCache::instance().use(); }

}  // namespace subbyte::ops
