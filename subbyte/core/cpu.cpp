// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/core/cpu.h"

#include <fmt/format.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <atomic>
#include <cstdlib>
#include <fstream>

#include "subbyte/core/error.h"

namespace subbyte {
namespace {

Isa read_cap() {
    const Isa detected = detected_isa();
    const char* text = std::getenv("SUBBYTE_MAX_ISA");
    if (text == nullptr || *text == '\0') return detected;
    for (Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx512}) {
        if (isa_name(isa) == text) return isa < detected ? isa : detected;
    }
    throw Error(ErrorCode::kUsage, fmt::format("SUBBYTE_MAX_ISA is '{}'", text),
                "use one of: reference, avx2, avx512");
}

std::atomic<Isa>& cap() {
    static std::atomic<Isa> value{read_cap()};
    return value;
}

}  // namespace

std::string_view isa_name(Isa isa) {
    switch (isa) {
        case Isa::kReference: return "reference";
        case Isa::kAvx2: return "avx2";
        case Isa::kAvx512: return "avx512";
    }
    return "?";
}

Isa detected_isa() {
#if defined(__x86_64__)
    // Clang before 15 has no name for F16C in __builtin_cpu_supports.
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
    const bool avx2 = f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 =
        avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi");
    return avx512 ? Isa::kAvx512 : avx2 ? Isa::kAvx2 : Isa::kReference;
#else
    return Isa::kReference;
#endif
}

Isa max_isa() { return cap().load(std::memory_order_relaxed); }

void set_max_isa(Isa isa) {
    if (isa > detected_isa()) {
        throw Error(ErrorCode::kHardware,
                    fmt::format("instruction set {} asked for, this processor has {}",
                                isa_name(isa), isa_name(detected_isa())));
    }
    cap().store(isa, std::memory_order_relaxed);
}

bool has_bf16_dot() {
#if defined(__x86_64__)
    return max_isa() >= Isa::kAvx512 && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

std::string cpu_model_name() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
        if (line.rfind("model name", 0) == 0) {
            const auto colon = line.find(": ");
            if (colon != std::string::npos) return line.substr(colon + 2);
        }
    }
    return "unknown";
}

}  // namespace subbyte
