// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The vector vocabulary of the kernels on AVX2 + FMA + F16C; the same names as avx512-inl.h.
// Include it only from *_avx2.cpp: everything has internal linkage.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace subbyte::kernels {
namespace {

constexpr int kLanes = 8;
using F = __m256;
using I = __m256i;

inline I lanes_mask(std::int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline F load(const float* p) { return _mm256_loadu_ps(p); }
inline F load_first(const float* p, std::int64_t n) { return _mm256_maskload_ps(p, lanes_mask(n)); }
inline void store(float* p, F v) { _mm256_storeu_ps(p, v); }
inline void store_first(float* p, F v, std::int64_t n) { _mm256_maskstore_ps(p, lanes_mask(n), v); }

inline F set(float x) { return _mm256_set1_ps(x); }
inline I set(std::uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
inline I bits(F v) { return _mm256_castps_si256(v); }
inline F floats(I v) { return _mm256_castsi256_ps(v); }

inline F mul(F a, F b) { return _mm256_mul_ps(a, b); }
inline F add(F a, F b) { return _mm256_add_ps(a, b); }
inline F div(F a, F b) { return _mm256_div_ps(a, b); }
inline F min(F a, F b) { return _mm256_min_ps(a, b); }
inline F max(F a, F b) { return _mm256_max_ps(a, b); }
inline F mul_add(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }       // a * b + c
inline F neg_mul_add(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a * b

inline I add(I a, I b) { return _mm256_add_epi32(a, b); }
inline I sub(I a, I b) { return _mm256_sub_epi32(a, b); }
inline I and_(I a, I b) { return _mm256_and_si256(a, b); }
inline I or_(I a, I b) { return _mm256_or_si256(a, b); }
inline I xor_(I a, I b) { return _mm256_xor_si256(a, b); }
inline I xor3(I a, I b, I c) { return xor_(xor_(a, b), c); }
inline I merge(I mask, I a, I b) {  // mask ? a : b, bit by bit
    return _mm256_or_si256(_mm256_and_si256(mask, a), _mm256_andnot_si256(mask, b));
}
inline I max_unsigned(I a, I b) { return _mm256_max_epu32(a, b); }
template <int N>
inline I shift_left(I v) {
    return _mm256_slli_epi32(v, N);
}
template <int N>
inline I shift_right(I v) {
    return _mm256_srli_epi32(v, N);
}
inline I sign_mask(I v) { return _mm256_srai_epi32(v, 31); }
inline std::uint32_t reduce_max(I v) {
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4E));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xB1));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(m));
}
inline I equal(I a, I b) { return _mm256_cmpeq_epi32(a, b); }
// All bits set where a > b, both below 2^31.
inline I greater(I a, I b) { return _mm256_cmpgt_epi32(a, b); }

// The low 16 bits of each lane, in order; lanes must be below 2^16.
inline __m128i narrow(I v) {
    return _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}
// The low byte of each lane; lanes must be below 256.
inline void store_bytes(std::uint8_t* p, I v) {
    const __m128i words = narrow(v);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
}
inline void store_words(std::uint8_t* p, I v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow(v));
}
inline I load_words(const void* p) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}

inline I load_bytes(const std::uint8_t* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
// base[kStride * index] of each lane.
template <int kStride>
inline I gather(const std::uint32_t* base, I index) {
    return _mm256_i32gather_epi32(reinterpret_cast<const int*>(base), index, 4 * kStride);
}

inline F int_to_float(I v) { return _mm256_cvtepi32_ps(v); }

// 64-bit lanes: sums, full products of the even 32-bit lanes, shifts, and (low half of a, low half
// of b).
inline I set64(std::uint64_t x) { return _mm256_set1_epi64x(static_cast<long long>(x)); }
inline I add64(I a, I b) { return _mm256_add_epi64(a, b); }
inline I mul_even(I a, I b) { return _mm256_mul_epu32(a, b); }
template <int N>
inline I shift_left64(I v) {
    return _mm256_slli_epi64(v, N);
}
template <int N>
inline I shift_right64(I v) {
    return _mm256_srli_epi64(v, N);
}
inline I interleave_low(I a, I b) { return _mm256_blend_epi32(a, shift_left64<32>(b), 0xAA); }

// The low halves of the 64-bit lanes of a, then those of b.
inline I low_halves(I a, I b) {
    const F both = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(both), 0xD8);
}

inline I load_int(const std::uint32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline void store_int(void* p, I v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
inline I unpack_low32(I a, I b) { return _mm256_unpacklo_epi32(a, b); }
inline I unpack_high32(I a, I b) { return _mm256_unpackhi_epi32(a, b); }
inline I unpack_low64(I a, I b) { return _mm256_unpacklo_epi64(a, b); }
inline I unpack_high64(I a, I b) { return _mm256_unpackhi_epi64(a, b); }

// 32 bytes with a 4-bit code each -> 16 bytes.
constexpr std::int64_t kNibbleStep = 32;
inline void pack_nibble_step(const std::uint8_t* codes, std::uint8_t* packed) {
    const I pairs = _mm256_maddubs_epi16(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)), _mm256_set1_epi16(0x1001));
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(packed), bytes);
}

// kLanes 4-bit codes from 4 bytes, one per lane; bits above the low four are left over.
inline I spread_nibbles(const std::uint8_t* p) {
    std::uint32_t raw;
    std::memcpy(&raw, p, 4);
    return _mm256_srlv_epi32(set(raw), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
}

// Table of the 16 values of a 4-bit format; only the low four bits of an index count.
struct NibbleTable {
    F low, high;
    explicit NibbleTable(const float* table) : low(load(table)), high(load(table + 8)) {}
    F operator()(I codes) const {
        return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, codes),
                                _mm256_permutevar8x32_ps(high, codes),
                                floats(shift_left<28>(codes)));
    }
};

// kLanes floats from half-precision bits, exact.
using Half = __m128i;
inline Half load_byte_pairs(const std::uint8_t* p) {
    return _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
template <int N>
inline Half half_shift_left(Half v) {
    return _mm_slli_epi16(v, N);
}
inline Half half_set(int x) { return _mm_set1_epi16(static_cast<short>(x)); }
inline Half half_and(Half a, Half b) { return _mm_and_si128(a, b); }
inline Half half_or(Half a, Half b) { return _mm_or_si128(a, b); }
inline Half half_equal(Half a, Half b) { return _mm_cmpeq_epi16(a, b); }
inline F half_to_float(Half v) { return _mm256_cvtph_ps(v); }
inline F int8_to_float(const std::uint8_t* p) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

// kLanes x kLanes transpose in registers.
inline void transpose_square(I r[8]) {
    I t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = unpack_low32(r[i], r[i + 1]);
        t[i + 1] = unpack_high32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = unpack_low64(t[i], t[i + 2]);
        r[i + 1] = unpack_high64(t[i], t[i + 2]);
        r[i + 2] = unpack_low64(t[i + 1], t[i + 3]);
        r[i + 3] = unpack_high64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
        const I a = r[i], b = r[i + 4];
        r[i] = _mm256_permute2x128_si256(a, b, 0x20);
        r[i + 4] = _mm256_permute2x128_si256(a, b, 0x31);
    }
}

}  // namespace
}  // namespace subbyte::kernels
