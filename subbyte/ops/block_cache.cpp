// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/block_cache.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>

namespace subbyte::ops {
namespace {

constexpr std::size_t kSmallest = 1 << 20;  // smaller tensors are the C library's
constexpr std::size_t kGranule = 64 << 10;  // sizes are rounded up to this
constexpr std::size_t kHugeFrom = 8 << 20;  // blocks of this size ask for huge pages
constexpr double kMostWaste = 1.125;        // a kept block may be so much larger than asked for
constexpr double kMostKept = 1.03;          // total over the peak of what was in use

class BlockCache : public c10::Allocator {
public:
    static BlockCache& instance() {
        // Never destroyed: tensors with static lifetime return their blocks late.
        static BlockCache* const cache = new BlockCache;
        return *cache;
    }

    c10::DataPtr allocate(std::size_t bytes) override {
        void* const data = bytes < kSmallest ? c10::alloc_cpu(bytes) : take(bytes);
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
        if (const auto found = kept_.lower_bound(size);
            found != kept_.end() &&
            static_cast<double>(found->first) <= kMostWaste * static_cast<double>(size)) {
            const auto [kept_size, data] = *found;
            kept_.erase(found);
            kept_bytes_ -= kept_size;
            hand_out(data, kept_size);
            return data;
        }
        make_room(size);
        void* const data =
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED) {
            TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory: a tensor of ", bytes,
                             " bytes; ", live_, " bytes are in use");
        }
        if (size >= kHugeFrom) madvise(data, size, MADV_HUGEPAGE);
        hand_out(data, size);
        return data;
    }

    bool give_back(void* data) {
        const std::lock_guard lock(mutex_);
        const auto found = in_use_.find(data);
        if (found == in_use_.end()) return false;
        live_ -= found->second;
        kept_bytes_ += found->second;
        kept_.emplace(found->second, data);
        in_use_.erase(found);
        return true;
    }

    void hand_out(void* data, std::size_t size) {
        in_use_.emplace(data, size);
        live_ += size;
        peak_live_ = std::max(peak_live_, live_);
    }

    // Before a new block: drops kept ones, the largest first, until the total stays in bounds.
    void make_room(std::size_t size) {
        const auto bound = static_cast<std::size_t>(
            kMostKept * static_cast<double>(std::max(peak_live_, live_ + size)));
        while (!kept_.empty() && live_ + size + kept_bytes_ > bound) {
            const auto last = std::prev(kept_.end());
            munmap(last->second, last->first);
            kept_bytes_ -= last->first;
            kept_.erase(last);
        }
    }

    std::mutex mutex_;
    std::multimap<std::size_t, void*> kept_;         // by size
    std::unordered_map<void*, std::size_t> in_use_;  // sizes
    std::size_t live_ = 0, peak_live_ = 0, kept_bytes_ = 0;
};

}  // namespace

void keep_tensor_blocks() {
    static std::once_flag once;
    std::call_once(once, [] { c10::SetCPUAllocator(&BlockCache::instance(), /*priority=*/1); });
}

BlockCacheUse block_cache_use() { return BlockCache::instance().use(); }

}  // namespace subbyte::ops
