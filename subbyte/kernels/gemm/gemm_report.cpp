// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/gemm/gemm_report.h"

#include <algorithm>
#include <mutex>

#include "subbyte/kernels/gemm/gemm.h"

namespace subbyte::kernels {
namespace {

struct Registry {
    std::mutex mutex;
    std::vector<GemmCount> counts;
};

Registry& registry() {
    static Registry instance;
    return instance;
}

}  // namespace

std::vector<GemmCount> gemm_report() {
    std::lock_guard lock(registry().mutex);
    return registry().counts;
}

void reset_gemm_report() {
    std::lock_guard lock(registry().mutex);
    registry().counts.clear();
}

void count_gemm(const formats::QuantSpec& a, const formats::QuantSpec& b, const GemmRun& run,
                double multiply_adds) {
    std::lock_guard lock(registry().mutex);
    auto& counts = registry().counts;
    auto row = std::find_if(counts.begin(), counts.end(), [&](const GemmCount& count) {
        return count.kernel == run.kernel && count.a == a && count.b == b;
    });
    if (row == counts.end()) row = counts.insert(counts.end(), {a, b, run.kernel, run.native});
    ++row->runs;
    row->multiply_adds += multiply_adds;
}

}  // namespace subbyte::kernels
