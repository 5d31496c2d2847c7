// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace subbyte {

// Scratch memory that only grows, aligned to a cache line. Its content is undefined after each call
// of reserve(). Meant to live as a thread_local, so that a kernel allocates in its first call only.
template <class T>
class AlignedBuffer {
public:
    // At least `count` elements. Error: std::bad_alloc.
    T* reserve(std::size_t count) {
        if (count > capacity_) {
            data_.reset();
            data_.reset(static_cast<T*>(::operator new(count * sizeof(T), kAlignment)));
            capacity_ = count;
        }
        return data_.get();
    }

private:
    static constexpr std::align_val_t kAlignment{64};
    struct Free {
        void operator()(T* pointer) const { ::operator delete(pointer, kAlignment); }
    };
    std::unique_ptr<T[], Free> data_;
    std::size_t capacity_ = 0;
};

}  // namespace subbyte
