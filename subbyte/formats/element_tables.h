// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace subbyte::formats {

// Values of the element formats that are tables. They live for the whole program.

// Magnitudes by code: 0, then powers of 2^(1/8) up to 1 (LNS-Madam, 2106.13914, base factor 8).
// The paper's exponents are 0 ... 127; the last one gave its code to zero.
std::span<const float> lns8_magnitudes();  // 128: 0, 2^(-126/8), ..., 2^(-1/8), 1

// The same with radix 2: LUQ's [1,3,0] format (2112.10769) and zero.
std::span<const float> lns4_magnitudes();  // 8: 0, 2^-6, ..., 1/2, 1

// NormalFloat of QLoRA (2305.14314), appendix E, as bitsandbytes has it.
std::span<const float> nf4_values();

// Dynamic maps of bitsandbytes (2110.02861) and torchao, made with the same float32 operations.
std::span<const float> dynamic8_values();   // 256, signed, 7 exponent bits
std::span<const float> udynamic8_values();  // 256, unsigned, 7 exponent bits
std::span<const float> dynamic4_values();   // 16, signed, 3 exponent bits
std::span<const float> ulinear4_values();   // 16: 1/16, 2/16, ..., 1; no zero

}  // namespace subbyte::formats
