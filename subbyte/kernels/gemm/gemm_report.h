// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "subbyte/formats/spec.h"
#include "subbyte/kernels/kernel_list.h"

namespace subbyte::kernels {

struct GemmProblem;
struct GemmRun;

// How often one kernel ran for one pair of specs.
struct GemmCount {
    formats::QuantSpec a, b;
    std::string_view kernel;
    bool native = false;
    std::int64_t runs = 0;
    double multiply_adds = 0.0;  // M * N * K, summed over the runs
};

// All counts of this process since the last reset, in the order of first appearance. Safe from any
// thread.
std::vector<GemmCount> gemm_report();
void reset_gemm_report();

// True with SUBBYTE_VERBOSE=gemm in the environment, which is read at the first call: every GEMM
// then writes a line to the log (core/log.h). Error kUsage when the variable holds another word.
bool gemm_is_verbose();

// One line: what was multiplied, by which kernel, why by none of those above it in the list, and
// how long it took. `reasons` may be empty.
void log_gemm(std::string_view op, const GemmProblem& problem, std::string_view kernel,
              const std::vector<Candidate>& reasons, double seconds);

// Called by gemm().
void count_gemm(const formats::QuantSpec& a, const formats::QuantSpec& b, const GemmRun& run,
                double multiply_adds);

}  // namespace subbyte::kernels
