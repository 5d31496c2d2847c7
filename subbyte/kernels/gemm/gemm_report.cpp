// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/kernels/gemm/gemm_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>

#include "subbyte/core/error.h"
#include "subbyte/core/log.h"
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

bool gemm_is_verbose() {
    static const bool verbose = [] {
        const char* text = std::getenv("SUBBYTE_VERBOSE");
        if (text == nullptr || *text == '\0') return false;
        if (std::string_view(text) == "gemm") return true;
        throw Error(ErrorCode::kUsage, fmt::format("SUBBYTE_VERBOSE is '{}'", text),
                    "use gemm: a line for every matrix product");
    }();
    return verbose;
}

void log_gemm(std::string_view op, const GemmProblem& problem, std::string_view kernel,
              const std::vector<Candidate>& reasons, double seconds) {
    const GemmProblem& p = problem;
    std::string line =
        fmt::format("{} {} x {} x {}, {} * {}: {}, {:.3f} ms", op, p.m, p.n, p.k,
                    formats::to_string(p.a), formats::to_string(p.b), kernel, 1e3 * seconds);
    for (const Candidate& candidate : reasons) {
        if (candidate.chosen) break;
        line += fmt::format("; not {}: {}", candidate.kernel, candidate.refusal);
    }
    log(LogLevel::kInfo, line);
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
