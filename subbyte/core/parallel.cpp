// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/core/parallel.h"

#include <utility>

namespace subbyte {
namespace {

ParallelFor& current() {
    static ParallelFor implementation;
    return implementation;
}

}  // namespace

void set_parallel_for(ParallelFor implementation) { current() = std::move(implementation); }

void parallel_for(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
    if (count <= 0) return;
    if (current() && count > grain) {
        current()(count, grain, body);
    } else {
        body(0, count);
    }
}

}  // namespace subbyte
