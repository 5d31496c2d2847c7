// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Decoders of the AVX-512 GEMM kernels: one call gives the carriers of kCodes neighbouring codes
// of a row, from column `col` on, zero behind the end of the row. Nothing behind the row is read.
#pragma once

#include <algorithm>
#include <array>

#include "subbyte/kernels/gemm/panels.h"
#include "subbyte/kernels/simd/avx512-inl.h"

namespace subbyte::kernels {
namespace {

inline __mmask64 mask64(std::int64_t n) {
    return n >= 64 ? ~__mmask64{0} : n <= 0 ? 0 : (__mmask64{1} << n) - 1;
}
inline __mmask32 mask32(std::int64_t n) { return static_cast<__mmask32>(mask64(n)); }
inline __mmask16 mask16(std::int64_t n) { return static_cast<__mmask16>(mask64(n)); }

// 4-bit codes -> int8.
struct NibbleToInt8 {
    static constexpr int kCodes = 64;
    I table;
    explicit NibbleToInt8(const CodeValues* values)
        : table(_mm512_broadcast_i32x4(
              _mm_load_si128(reinterpret_cast<const __m128i*>(values->integers)))) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        const std::int64_t n = k - col;
        const __m256i packed = _mm256_maskz_loadu_epi8(mask32((n + 1) / 2), row.codes + col / 2);
        const I words = _mm512_cvtepu8_epi16(packed);
        const I codes = _mm512_and_si512(_mm512_or_si512(words, _mm512_slli_epi16(words, 4)),
                                         _mm512_set1_epi16(0x0F0F));
        return _mm512_maskz_shuffle_epi8(mask64(n), table, codes);
    }
};

struct Int8ToInt8 {
    static constexpr int kCodes = 64;
    explicit Int8ToInt8(const CodeValues*) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        return _mm512_maskz_loadu_epi8(mask64(k - col), row.codes + col);
    }
};

// Up to 64 codes of 6 bits from column `col` on, one per byte; bytes from the end of the row on are
// left over.
inline I six_bit_codes(const std::uint8_t* row, std::int64_t col, std::int64_t n) {
    const std::int64_t bytes = (std::min<std::int64_t>(n, 64) * 6 + 7) / 8;
    const I packed = _mm512_maskz_loadu_epi8(mask64(bytes), row + col * 6 / 8);
    // Six bytes, eight codes, to each 64 bits.
    alignas(64) static constexpr auto kSpread = [] {
        std::array<std::uint8_t, 64> index{};
        for (std::size_t i = 0; i < 64; ++i) {
            index[i] = static_cast<std::uint8_t>(std::min<std::size_t>(i / 8 * 6 + i % 8, 63));
        }
        return index;
    }();
    const I spread = _mm512_permutexvar_epi8(_mm512_load_si512(kSpread.data()), packed);
    const I shifts = _mm512_set1_epi64(0x2A241E18120C0600);  // 42, 36, ... 6, 0
    return _mm512_and_si512(_mm512_multishift_epi64_epi8(shifts, spread), _mm512_set1_epi8(63));
}

struct SixToInt8 {
    static constexpr int kCodes = 64;
    I table;
    explicit SixToInt8(const CodeValues* values) : table(_mm512_load_si512(values->integers)) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        return _mm512_maskz_permutexvar_epi8(mask64(k - col),
                                             six_bit_codes(row.codes, col, k - col), table);
    }
};

// 6-bit codes -> bfloat16.
struct SixToBf16 {
    static constexpr int kCodes = 32;
    I low, high;
    explicit SixToBf16(const CodeValues* values)
        : low(_mm512_load_si512(values->bf16_low)), high(_mm512_load_si512(values->bf16_high)) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        const std::int64_t n = std::min<std::int64_t>(k - col, kCodes);
        const I words =
            _mm512_cvtepu8_epi16(_mm512_castsi512_si256(six_bit_codes(row.codes, col, n)));
        const I codes = _mm512_or_si512(words, _mm512_slli_epi16(words, 8));
        return _mm512_maskz_mov_epi16(
            mask32(n),
            _mm512_mask_blend_epi8(0xAAAAAAAAAAAAAAAA, _mm512_permutexvar_epi8(codes, low),
                                   _mm512_permutexvar_epi8(codes, high)));
    }
};

// 4-bit codes -> bfloat16.
struct NibbleToBf16 {
    static constexpr int kCodes = 32;
    I table;
    explicit NibbleToBf16(const CodeValues* values) {
        const __m128i low = _mm_load_si128(reinterpret_cast<const __m128i*>(values->bf16_low));
        const __m128i high = _mm_load_si128(reinterpret_cast<const __m128i*>(values->bf16_high));
        table = _mm512_broadcast_i64x4(
            _mm256_set_m128i(_mm_unpackhi_epi8(low, high), _mm_unpacklo_epi8(low, high)));
    }
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        const std::int64_t n = k - col;
        const I bytes =
            _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask16((n + 1) / 2), row.codes + col / 2));
        const I codes = and_(or_(bytes, shift_left<12>(bytes)), _mm512_set1_epi16(0x000F));
        return _mm512_maskz_permutexvar_epi16(mask32(n), codes, table);
    }
};

// 8-bit floats -> bfloat16 by the 128 values without sign.
struct Fp8ToBf16 {
    static constexpr int kCodes = 32;
    I low[2], high[2];
    explicit Fp8ToBf16(const CodeValues* values)
        : low{_mm512_load_si512(values->bf16_low), _mm512_load_si512(values->bf16_low + 64)},
          high{_mm512_load_si512(values->bf16_high), _mm512_load_si512(values->bf16_high + 64)} {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        const __mmask32 mask = mask32(k - col);
        const I words = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(mask, row.codes + col));
        const I codes = _mm512_or_si512(words, _mm512_slli_epi16(words, 8));
        const I magnitude = _mm512_mask_blend_epi8(
            0xAAAAAAAAAAAAAAAA, _mm512_permutex2var_epi8(low[0], codes, low[1]),
            _mm512_permutex2var_epi8(high[0], codes, high[1]));
        const I sign = _mm512_and_si512(codes, _mm512_set1_epi16(static_cast<short>(0x8000)));
        return _mm512_maskz_mov_epi16(mask, _mm512_or_si512(magnitude, sign));
    }
};

struct Int8ToBf16 {
    static constexpr int kCodes = 32;
    explicit Int8ToBf16(const CodeValues*) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        const __m256i codes = _mm256_maskz_loadu_epi8(mask32(k - col), row.codes + col);
        // The upper half of the float: 7 bits and a leading one are enough for -128 ... 127.
        const auto upper = [](__m128i bytes) {
            return _mm512_cvtepi32_epi16(
                shift_right<16>(bits(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)))));
        };
        return _mm512_inserti64x4(_mm512_castsi256_si512(upper(_mm256_castsi256_si128(codes))),
                                  upper(_mm256_extracti128_si256(codes, 1)), 1);
    }
};

struct Bf16ToBf16 {
    static constexpr int kCodes = 32;
    explicit Bf16ToBf16(const CodeValues*) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        return _mm512_maskz_loadu_epi16(mask32(k - col), row.codes + 2 * col);
    }
};

// Any of the decoders to bfloat16, times the power-of-two scales of the rows (power_scales.h).
template <class Decode>
struct WithPowers {
    static constexpr int kCodes = 32;
    Decode decode;
    explicit WithPowers(const CodeValues* values) : decode(values) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        const I carriers = decode(row, col, k);
        if (col >= k) return carriers;
        const std::uint8_t code = row.power(col);
        if (code == 0xFF) return _mm512_set1_epi16(0x7FC0);  // NaN
        // Zero, Inf and NaN stay what they are.
        const I magnitude = _mm512_and_si512(carriers, _mm512_set1_epi16(0x7FFF));
        const __mmask32 finite = _mm512_cmplt_epu16_mask(
            _mm512_sub_epi16(magnitude, _mm512_set1_epi16(1)), _mm512_set1_epi16(0x7F7F));
        return _mm512_mask_add_epi16(carriers, finite, carriers,
                                     _mm512_set1_epi16(static_cast<short>((code - 127) * 128)));
    }
};

}  // namespace
}  // namespace subbyte::kernels
