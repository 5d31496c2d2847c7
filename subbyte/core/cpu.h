// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace subbyte {

// Instruction sets that kernels are written for, weakest first.
enum class Isa {
    kReference,  // portable C++
    kAvx2,       // AVX2 + FMA + F16C
    kAvx512,     // AVX-512 F/BW/VL/DQ + VNNI + VBMI; BF16 see has_bf16_dot()
};

std::string_view isa_name(Isa isa);  // "reference", "avx2", "avx512"

// The best instruction set this processor (and operating system) offers.
Isa detected_isa();

// detected_isa(), lowered by the environment variable SUBBYTE_MAX_ISA (reference | avx2 | avx512),
// which is read at the first call. Error kUsage when the variable holds another word.
Isa max_isa();

// Lowers the cap from inside the process (tests, tools). Error kHardware above detected_isa().
void set_max_isa(Isa isa);

// True when kernels may use the AVX-512 BF16 dot product: this processor has it, and max_isa() is
// kAvx512.
bool has_bf16_dot();

// Model name of the processor as the operating system tells it, or "unknown".
std::string cpu_model_name();

}  // namespace subbyte
