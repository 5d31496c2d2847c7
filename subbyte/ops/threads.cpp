// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "subbyte/core/parallel.h"

namespace subbyte::ops {
namespace {

// Deals the range out in pieces, several to a thread: one that is held up leaves the rest of its
// share to the others, where at::parallel_for() alone would have them wait for it.
void deal(std::int64_t count, std::int64_t grain,
          const std::function<void(std::int64_t, std::int64_t)>& body) {
    constexpr std::int64_t kPiecesPerThread = 8;
    const std::int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
    const std::int64_t even = (count - 1) / (threads * kPiecesPerThread) + 1;
    const std::int64_t piece = threads == 1 ? count : std::max({std::int64_t{1}, grain, even});
    const std::int64_t pieces = (count - 1) / piece + 1;
    std::atomic<std::int64_t> next{0};
    at::parallel_for(0, std::min(threads, pieces), 1, [&](std::int64_t, std::int64_t) {
        for (std::int64_t p = next++; p < pieces; p = next++) {
            body(p * piece, std::min(count, (p + 1) * piece));
        }
    });
}

}  // namespace

void use_torch_threads() {
    static std::once_flag once;
    std::call_once(once, [] { set_parallel_for(deal); });
}

}  // namespace subbyte::ops
