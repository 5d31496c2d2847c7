// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "subbyte/core/cpu.h"

namespace subbyte::kernels {

// Why a kernel does not take a problem; an empty reason means that it does.
using Refusal = std::string;

// One line of the explanation of a choice, in list order.
struct Candidate {
    std::string_view kernel;
    Isa isa;
    Refusal refusal;  // empty: accepts
    bool chosen = false;
};

// Name forced for `op` by SUBBYTE_FORCE_KERNEL=op=name[,op=name...]; empty when none. The variable
// is read at the first call. Ops: quantize, dequantize, gemm. Error kUsage for a malformed text or
// an unknown op; an unknown kernel name is an error of the first call that meets it.
std::string_view forced_kernel(std::string_view op);

// Replaces what the environment said (tests, tools); same text, same errors, "" forces nothing.
// Must not run at the same time as a kernel.
void force_kernels(std::string_view text);

// One row of the ordered list of an op: newest instruction set first, the reference last.
template <class Problem, class Run>
struct Kernel {
    std::string_view name;
    Isa isa;
    Refusal (*refuse)(const Problem&);
    Run run;
};

namespace detail {
Refusal isa_refusal(Isa needed);  // empty when max_isa() reaches `needed`
[[noreturn]] void fail_unknown(std::string_view op, std::string_view name,
                               const std::vector<std::string_view>& known);
[[noreturn]] void fail_refused(std::string_view op, const std::vector<Candidate>& candidates);
}  // namespace detail

// Every kernel of the list with its reason; at most one is chosen (none when a forced one refuses).
// Error kUsage when the forced name is not in the list.
template <class Problem, class Run>
std::vector<Candidate> explain(std::string_view op, std::span<const Kernel<Problem, Run>> list,
                               const Problem& problem) {
    const std::string_view forced = forced_kernel(op);
    std::vector<Candidate> candidates;
    std::vector<std::string_view> names;
    bool taken = false, known = forced.empty();
    for (const auto& kernel : list) {
        Candidate candidate{kernel.name, kernel.isa, detail::isa_refusal(kernel.isa)};
        if (candidate.refusal.empty()) candidate.refusal = kernel.refuse(problem);
        if (kernel.name == forced) known = true;
        if (candidate.refusal.empty() && !forced.empty() && kernel.name != forced) {
            candidate.refusal = "SUBBYTE_FORCE_KERNEL asks for " + std::string(forced);
        }
        candidate.chosen = !taken && candidate.refusal.empty();
        taken = taken || candidate.chosen;
        names.push_back(kernel.name);
        candidates.push_back(std::move(candidate));
    }
    if (!known) detail::fail_unknown(op, forced, names);
    return candidates;
}

// The kernel that runs: the forced one, else the first that accepts. Error kUsage with all reasons
// when there is none.
template <class Problem, class Run>
const Kernel<Problem, Run>& choose(std::string_view op, std::span<const Kernel<Problem, Run>> list,
                                   const Problem& problem) {
    const std::string_view forced = forced_kernel(op);
    for (const auto& kernel : list) {
        if (!forced.empty() && kernel.name != forced) continue;
        if (kernel.isa <= max_isa() && kernel.refuse(problem).empty()) return kernel;
    }
    detail::fail_refused(op, explain(op, list, problem));
}

}  // namespace subbyte::kernels
