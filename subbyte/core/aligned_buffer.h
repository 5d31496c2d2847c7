// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>

namespace subbyte {

// Scratch memory that only grows, aligned to a cache line; a large one asks for huge pages, across
// which the processor fetches ahead. Its content is undefined after each call of reserve(). Meant
// to live as a thread_local, so that a kernel allocates in its first call only.
template <class T>
class AlignedBuffer {
public:
    // At least `count` elements. Error: std::bad_alloc.
    T* reserve(std::size_t count) {
        if (count > capacity_) {
            const std::size_t bytes = count * sizeof(T);
            const bool large = bytes >= kHugeFrom;
            const Free free{std::align_val_t{large ? kHugePage : kLine}};
            data_.reset();
            data_ = {static_cast<T*>(::operator new(bytes, free.alignment)), free};
            if (large) madvise(data_.get(), bytes, MADV_HUGEPAGE);
            capacity_ = count;
        }
        return data_.get();
    }

private:
    static constexpr std::size_t kLine = 64, kHugePage = 2 << 20, kHugeFrom = 4 << 20;
    struct Free {
        std::align_val_t alignment{kLine};
        void operator()(T* pointer) const { ::operator delete(pointer, alignment); }
    };
    std::unique_ptr<T[], Free> data_;
    std::size_t capacity_ = 0;
};

}  // namespace subbyte
