// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace subbyte {

// Calls body(begin, end) on disjoint ranges that cover [0, count), each of at least `grain` items
// except the last. Bodies must not depend on how the range was cut: results never depend on the
// thread count.
using ParallelFor =
    std::function<void(std::int64_t count, std::int64_t grain,
                       const std::function<void(std::int64_t, std::int64_t)>& body)>;

// Installs the thread pool that parallel_for uses (ops/ installs LibTorch's). Default: the calling
// thread.
void set_parallel_for(ParallelFor implementation);

void parallel_for(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace subbyte
