// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Decoders of the AVX2 GEMM kernels: one call gives a vector of the carriers of kCodes
// neighbouring codes of a row, from column `col` on, zero behind the end of the row. Nothing
// behind the row is read.
#pragma once

#include <cstring>

#include "subbyte/kernels/gemm/panels.h"
#include "subbyte/kernels/simd/avx2-inl.h"

namespace subbyte::kernels {
namespace {

// kCodes codes of kBits bits from column `col` on, readable as whole bytes: in place, or copied
// and filled up with zeros where the row ends before.
template <int kCodes, int kBits>
class Codes {
public:
    Codes(const std::uint8_t* row, std::int64_t col, std::int64_t k)
        : bytes_(row + col * kBits / 8) {
        const std::int64_t n = k - col;
        if (n >= kCodes) return;
        std::memset(copy_, 0, sizeof copy_);
        if (n > 0) {
            std::memcpy(copy_, bytes_, static_cast<std::size_t>((n * kBits + 7) / 8));
            if (n * kBits % 8 != 0) {
                copy_[n * kBits / 8] &= static_cast<std::uint8_t>((1 << n * kBits % 8) - 1);
            }
        }
        bytes_ = copy_;
    }
    const std::uint8_t* bytes() const { return bytes_; }

private:
    const std::uint8_t* bytes_;
    std::uint8_t copy_[kCodes * kBits / 8];
};

inline __m128i load64(const std::uint8_t* p) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}
inline __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

// 4-bit codes -> bytes: value + kOffset.
template <int kOffset>
struct NibbleToByte {
    static constexpr int kCodes = 32;
    I table;
    explicit NibbleToByte(const CodeValues* values)
        : table(_mm256_broadcastsi128_si256(
              _mm_add_epi8(load128(values->integers), _mm_set1_epi8(kOffset)))) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        const Codes<kCodes, 4> codes(row.codes, col, k);
        const I words = _mm256_cvtepu8_epi16(load128(codes.bytes()));
        return _mm256_shuffle_epi8(
            table, and_(or_(words, _mm256_slli_epi16(words, 4)), _mm256_set1_epi8(0x0F)));
    }
};

struct NibbleToInt16 {
    static constexpr int kCodes = 16;
    __m128i table;
    explicit NibbleToInt16(const CodeValues* values) : table(load128(values->integers)) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        const Codes<kCodes, 4> codes(row.codes, col, k);
        const __m128i words = _mm_cvtepu8_epi16(load64(codes.bytes()));
        const __m128i nibbles =
            _mm_and_si128(_mm_or_si128(words, _mm_slli_epi16(words, 4)), _mm_set1_epi8(0x0F));
        return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(table, nibbles));
    }
};

struct Int8ToInt16 {
    static constexpr int kCodes = 16;
    explicit Int8ToInt16(const CodeValues*) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        return _mm256_cvtepi8_epi16(load128(Codes<kCodes, 8>(row.codes, col, k).bytes()));
    }
};

// Eight codes of 6 bits, one per lane.
inline I six_bit_codes(const std::uint8_t* p) {
    std::uint64_t raw = 0;
    std::memcpy(&raw, p, 6);
    const I even = _mm256_srlv_epi64(set64(raw), _mm256_setr_epi64x(0, 12, 24, 36));
    const I odd = _mm256_srlv_epi64(set64(raw), _mm256_setr_epi64x(6, 18, 30, 42));
    return and_(interleave_low(even, odd), set(63u));
}

struct SixToInt16 {
    static constexpr int kCodes = 16;
    const std::int8_t* integers;
    explicit SixToInt16(const CodeValues* values) : integers(values->integers) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        const Codes<kCodes, 6> codes(row.codes, col, k);
        const auto lookup = [&](const std::uint8_t* p) {  // the bytes behind are shifted out
            const I words =
                _mm256_i32gather_epi32(reinterpret_cast<const int*>(integers), six_bit_codes(p), 1);
            return _mm256_srai_epi32(shift_left<24>(words), 24);
        };
        return _mm256_permute4x64_epi64(
            _mm256_packs_epi32(lookup(codes.bytes()), lookup(codes.bytes() + 6)), 0xD8);
    }
};

// 6-bit and 8-bit codes -> float by the table of all values.
template <int kBits>
struct TableToFloat {
    static constexpr int kCodes = 8;
    const float* table;
    explicit TableToFloat(const CodeValues* values) : table(values->f32) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        const Codes<kCodes, kBits> codes(row.codes, col, k);
        const I indices =
            kBits == 6 ? six_bit_codes(codes.bytes()) : _mm256_cvtepu8_epi32(load64(codes.bytes()));
        return bits(_mm256_i32gather_ps(table, indices, 4));
    }
};

struct NibbleToFloat {
    static constexpr int kCodes = 8;
    NibbleTable table;
    explicit NibbleToFloat(const CodeValues* values) : table(values->f32) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        return bits(table(spread_nibbles(Codes<kCodes, 4>(row.codes, col, k).bytes())));
    }
};

struct Int8ToFloat {
    static constexpr int kCodes = 8;
    explicit Int8ToFloat(const CodeValues*) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        return bits(int8_to_float(Codes<kCodes, 8>(row.codes, col, k).bytes()));
    }
};

// E5M2 is the upper byte of a half.
struct E5m2ToFloat {
    static constexpr int kCodes = 8;
    explicit E5m2ToFloat(const CodeValues*) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        const Codes<kCodes, 8> codes(row.codes, col, k);
        return bits(half_to_float(half_shift_left<8>(load_byte_pairs(codes.bytes()))));
    }
};

// E4M3 is a half with another bias: 2^8 too small. Its NaN is no NaN there.
struct E4m3ToFloat {
    static constexpr int kCodes = 8;
    explicit E4m3ToFloat(const CodeValues*) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        const Codes<kCodes, 8> codes(row.codes, col, k);
        const Half pairs = load_byte_pairs(codes.bytes());
        const Half magnitude = half_and(pairs, half_set(0x7F));
        const Half sign = half_shift_left<8>(half_and(pairs, half_set(0x80)));
        const Half nan = half_equal(magnitude, half_set(0x7F));
        const Half half = half_or(half_or(half_shift_left<7>(magnitude), sign), nan);
        return bits(mul(half_to_float(half), set(0x1p8f)));
    }
};

struct Bf16ToFloat {
    static constexpr int kCodes = 8;
    explicit Bf16ToFloat(const CodeValues*) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        return shift_left<16>(load_words(Codes<kCodes, 16>(row.codes, col, k).bytes()));
    }
};

// Any of the decoders to float, times the power-of-two scales of the rows (power_scales.h).
template <class Decode>
struct WithPowers {
    static constexpr int kCodes = 8;
    Decode decode;
    explicit WithPowers(const CodeValues* values) : decode(values) {}
    I operator()(const CodeRow& row, std::int64_t col, std::int64_t k) const {
        const I carriers = decode(row, col, k);
        if (col >= k) return carriers;
        const std::uint32_t code = row.power(col);
        return bits(mul(floats(carriers), floats(set(code == 0xFF ? 0x7FC00000 : code << 23))));
    }
};

}  // namespace
}  // namespace subbyte::kernels
