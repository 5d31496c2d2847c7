// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace subbyte {

// While it lives, float arithmetic of the calling thread follows IEEE 754: round to nearest even
// and subnormals kept. Number formats are exact even in a process that asked for flush-to-zero.
class IeeeFloatScope {
public:
#if defined(__x86_64__)
    IeeeFloatScope() : saved_(_mm_getcsr()) {
        constexpr unsigned kFlushToZero = 0x8000, kRounding = 0x6000, kDenormalsAreZero = 0x0040;
        _mm_setcsr(saved_ & ~(kFlushToZero | kRounding | kDenormalsAreZero));
    }
    ~IeeeFloatScope() { _mm_setcsr(saved_); }
#else
    IeeeFloatScope() {}
    ~IeeeFloatScope() {}
#endif
    IeeeFloatScope(const IeeeFloatScope&) = delete;
    IeeeFloatScope& operator=(const IeeeFloatScope&) = delete;

private:
#if defined(__x86_64__)
    unsigned saved_;
#endif
};

}  // namespace subbyte
