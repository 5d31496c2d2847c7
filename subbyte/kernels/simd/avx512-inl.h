// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The vector vocabulary of the kernels on AVX-512. Include it only from *_avx512.cpp: everything
// has internal linkage, so that no function compiled for this instruction set can be linked into
// another.
#pragma once

#include <immintrin.h>

#include <cstdint>

// GCC 12 warns about the deliberately undefined operands inside its own intrinsics (GCC bug
// 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

namespace subbyte::kernels {
namespace {

constexpr int kLanes = 16;
using F = __m512;   // kLanes floats
using I = __m512i;  // kLanes 32-bit integers

inline __mmask16 lanes_mask(std::int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }

inline F load(const float* p) { return _mm512_loadu_ps(p); }
inline F load_first(const float* p, std::int64_t n) {
    return _mm512_maskz_loadu_ps(lanes_mask(n), p);
}
inline void store(float* p, F v) { _mm512_storeu_ps(p, v); }
inline void store_first(float* p, F v, std::int64_t n) {
    _mm512_mask_storeu_ps(p, lanes_mask(n), v);
}

inline F set(float x) { return _mm512_set1_ps(x); }
inline I set(std::uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
inline I bits(F v) { return _mm512_castps_si512(v); }
inline F floats(I v) { return _mm512_castsi512_ps(v); }

inline F mul(F a, F b) { return _mm512_mul_ps(a, b); }
inline F add(F a, F b) { return _mm512_add_ps(a, b); }
inline F div(F a, F b) { return _mm512_div_ps(a, b); }
inline F min(F a, F b) { return _mm512_min_ps(a, b); }
inline F max(F a, F b) { return _mm512_max_ps(a, b); }
inline F mul_add(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }       // a * b + c
inline F neg_mul_add(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a * b

inline I add(I a, I b) { return _mm512_add_epi32(a, b); }
inline I sub(I a, I b) { return _mm512_sub_epi32(a, b); }
inline I and_(I a, I b) { return _mm512_and_si512(a, b); }
inline I or_(I a, I b) { return _mm512_or_si512(a, b); }
inline I xor_(I a, I b) { return _mm512_xor_si512(a, b); }
inline I xor3(I a, I b, I c) { return _mm512_ternarylogic_epi32(a, b, c, 0x96); }
inline I merge(I mask, I a, I b) {
    return _mm512_ternarylogic_epi32(mask, a, b, 0xCA);
}  // mask ? a : b
inline I max_unsigned(I a, I b) { return _mm512_max_epu32(a, b); }
template <int N>
inline I shift_left(I v) {
    return _mm512_slli_epi32(v, N);
}
template <int N>
inline I shift_right(I v) {
    return _mm512_srli_epi32(v, N);
}
inline I sign_mask(I v) { return _mm512_srai_epi32(v, 31); }
inline std::uint32_t reduce_max(I v) { return _mm512_reduce_max_epu32(v); }
inline I equal(I a, I b) { return _mm512_movm_epi32(_mm512_cmpeq_epi32_mask(a, b)); }
// All bits set where a > b, both below 2^31.
inline I greater(I a, I b) { return _mm512_movm_epi32(_mm512_cmpgt_epi32_mask(a, b)); }

// The low byte of each lane.
inline void store_bytes(std::uint8_t* p, I v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
}
inline void store_words(std::uint8_t* p, I v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(v));
}
inline I load_words(const void* p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}

inline I load_bytes(const std::uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
// base[kStride * index] of each lane.
template <int kStride>
inline I gather(const std::uint32_t* base, I index) {
    return _mm512_i32gather_epi32(index, base, 4 * kStride);
}

inline F int_to_float(I v) { return _mm512_cvtepi32_ps(v); }

// 64-bit lanes: sums, full products of the even 32-bit lanes, shifts, and (low half of a, low half
// of b).
inline I set64(std::uint64_t x) { return _mm512_set1_epi64(static_cast<long long>(x)); }
inline I add64(I a, I b) { return _mm512_add_epi64(a, b); }
inline I mul_even(I a, I b) { return _mm512_mul_epu32(a, b); }
template <int N>
inline I shift_left64(I v) {
    return _mm512_slli_epi64(v, N);
}
template <int N>
inline I shift_right64(I v) {
    return _mm512_srli_epi64(v, N);
}
inline I interleave_low(I a, I b) {
    return _mm512_mask_blend_epi32(0xAAAA, a, shift_left64<32>(b));
}

// The low halves of the 64-bit lanes of a, then those of b.
inline I low_halves(I a, I b) {
    const I index = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_epi32(a, index, b);
}

inline I load_int(const std::uint32_t* p) { return _mm512_loadu_si512(p); }
inline void store_int(void* p, I v) { _mm512_storeu_si512(p, v); }
inline I unpack_low32(I a, I b) { return _mm512_unpacklo_epi32(a, b); }
inline I unpack_high32(I a, I b) { return _mm512_unpackhi_epi32(a, b); }
inline I unpack_low64(I a, I b) { return _mm512_unpacklo_epi64(a, b); }
inline I unpack_high64(I a, I b) { return _mm512_unpackhi_epi64(a, b); }

// 64 bytes with a 4-bit code each -> 32 bytes.
constexpr std::int64_t kNibbleStep = 64;
inline void pack_nibble_step(const std::uint8_t* codes, std::uint8_t* packed) {
    const I pairs = _mm512_maddubs_epi16(_mm512_loadu_si512(codes), _mm512_set1_epi16(0x1001));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(packed), _mm512_cvtepi16_epi8(pairs));
}

// kLanes 4-bit codes from 8 bytes, one per lane; bits above the low four are left over.
inline I spread_nibbles(const std::uint8_t* p) {
    const __m128i raw = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    const I halves =
        _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1),
                                 _mm512_castsi128_si512(raw));
    return _mm512_srlv_epi32(
        halves, _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28));
}

// Table of the 16 values of a 4-bit format; only the low four bits of an index count.
struct NibbleTable {
    F values;
    explicit NibbleTable(const float* table) : values(load(table)) {}
    F operator()(I codes) const { return _mm512_permutexvar_ps(codes, values); }
};

// kLanes floats from half-precision bits, exact.
using Half = __m256i;
inline Half load_byte_pairs(const std::uint8_t* p) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
template <int N>
inline Half half_shift_left(Half v) {
    return _mm256_slli_epi16(v, N);
}
inline Half half_set(int x) { return _mm256_set1_epi16(static_cast<short>(x)); }
inline Half half_and(Half a, Half b) { return _mm256_and_si256(a, b); }
inline Half half_or(Half a, Half b) { return _mm256_or_si256(a, b); }
inline Half half_equal(Half a, Half b) { return _mm256_cmpeq_epi16(a, b); }
inline F half_to_float(Half v) { return _mm512_cvtph_ps(v); }
inline F int8_to_float(const std::uint8_t* p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

// kLanes x kLanes transpose in registers.
inline void transpose_square(I r[16]) {
    I t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = unpack_low32(r[i], r[i + 1]);
        t[i + 1] = unpack_high32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = unpack_low64(t[i], t[i + 2]);
        r[i + 1] = unpack_high64(t[i], t[i + 2]);
        r[i + 2] = unpack_low64(t[i + 1], t[i + 3]);
        r[i + 3] = unpack_high64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xDD);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xDD);
    }
    for (int i = 0; i < 4; ++i) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xDD);
        r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xDD);
    }
}

}  // namespace
}  // namespace subbyte::kernels
