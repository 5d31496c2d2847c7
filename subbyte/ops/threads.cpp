// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/threads.h"

#include <ATen/Parallel.h>

#include <mutex>

#include "subbyte/core/parallel.h"

namespace subbyte::ops {

void use_torch_threads() {
    static std::once_flag once;
    std::call_once(once, [] {
        set_parallel_for([](std::int64_t count, std::int64_t grain,
                            const std::function<void(std::int64_t, std::int64_t)>& body) {
            at::parallel_for(0, count, grain, body);
        });
    });
}

}  // namespace subbyte::ops
