// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// INT8, INT4, E2M1 (doubled: an integer up to 12) and E2M3 (times 8: up to 60) by the VNNI dot
// product of signed with unsigned bytes. B is stored as value + 128; what that adds, 128 * (sum of
// the block of A), is taken off in the start value of each sum. Block sums are exact, so the result
// is within (blocks + 3) * 2^-24 of the sum of absolute products.
#include "subbyte/kernels/gemm/kernels.h"
#include "subbyte/kernels/gemm/tiles_avx512-inl.h"

namespace subbyte::kernels {
namespace {

struct Int8Dot {
    using Sum = I;
    static constexpr int kWords = kChunk / 4;
    static I start(const std::int32_t* sums, int row) { return _mm512_set1_epi32(sums[row]); }
    static const std::int32_t* next(const std::int32_t* sums) { return sums + kTileRows; }
    static I dot(I sum, I a, I b) {
        asm volatile("vpdpbusd %1, %2, %0" : "+v"(sum) : "v"(a), "v"(b));
        return sum;
    }
    static F to_float(I sum) { return int_to_float(sum); }
};

// The 16 sums of each of two vectors become 8, in turns.
inline I add_pairs(I a, I b) { return add(unpack_low32(a, b), unpack_high32(a, b)); }
inline I add_quads(I a, I b) { return add(unpack_low64(a, b), unpack_high64(a, b)); }
inline __m128i add_quarters(I a) {
    const __m256i half =
        _mm256_add_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

// 128 * the sums of 4 carriers each.
inline I sums_of_fours(I start, I carriers) {
    return _mm512_dpbusd_epi32(start, _mm512_set1_epi8(-128), carriers);
}

// -128 * the sum of the one block of each row of a chunk, from its sums of fours.
void whole_sums(const I fours[kTileRows], std::int32_t* sums) {
    const I last = add_pairs(fours[4], fours[5]);
    const __m128i four = add_quarters(
                      add_quads(add_pairs(fours[0], fours[1]), add_pairs(fours[2], fours[3]))),
                  two = add_quarters(add_quads(last, last));
    const __m128i zero = _mm_setzero_si128();
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sums), _mm_sub_epi32(zero, four));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(sums + 4), _mm_sub_epi32(zero, two));
}

// The same for shorter blocks of one row, to sums[block][row].
void block_sums(const I carriers[2], int block, std::int32_t* sums, int row) {
    alignas(64) std::int32_t quads[32];  // of 4 carriers each
    for (int v = 0; v < 2; ++v) {
        I sum = sums_of_fours(_mm512_setzero_si512(), carriers[v]);
        sum = add(sum, _mm512_shuffle_epi32(sum, _MM_PERM_BADC));
        sum = add(sum, _mm512_shuffle_epi32(sum, _MM_PERM_CDAB));
        _mm512_store_si512(quads + 16 * v, sum);
    }
    for (int q = 0; q < kChunk / block; ++q) {
        std::int32_t sum = 0;
        for (int i = q * block / 4; i < (q + 1) * block / 4; i += 4) sum += quads[i];
        sums[q * kTileRows + row] = -sum;
    }
}

template <class Decode>
void pack_a_as(const CodeRows& source, std::int64_t first, int block, std::uint8_t* data,
               std::int32_t* sums) {
    if (block == kChunk) {
        I fours[kTileRows];
        return pack_rows<Decode>(
            source, first, data, [&](std::int64_t col, int row, const I carriers[2]) {
                fours[row] =
                    sums_of_fours(sums_of_fours(_mm512_setzero_si512(), carriers[0]), carriers[1]);
                if (row == kTileRows - 1) whole_sums(fours, sums + col / kChunk * kTileRows);
            });
    }
    pack_rows<Decode>(source, first, data, [&](std::int64_t col, int row, const I carriers[2]) {
        block_sums(carriers, block, sums + col / block * kTileRows, row);
    });
}

void pack_a(const CodeRows& source, std::int64_t first, int block, std::uint8_t* data,
            std::int32_t* sums) {
    switch (source.element->bits) {
        case 4: return pack_a_as<NibbleToInt8>(source, first, block, data, sums);
        case 6: return pack_a_as<SixToInt8>(source, first, block, data, sums);
        default: return pack_a_as<Int8ToInt8>(source, first, block, data, sums);
    }
}

void pack_b(const CodeRows& source, std::int64_t first, int, std::uint8_t* data, std::int32_t*) {
    const I flip = _mm512_set1_epi8(-128);
    switch (source.element->bits) {
        case 4: return pack_columns<NibbleToInt8>(source, first, data, flip);
        case 6: return pack_columns<SixToInt8>(source, first, data, flip);
        default: return pack_columns<Int8ToInt8>(source, first, data, flip);
    }
}

// Tiles with 16 codes per scale: the block of B stays in registers, rows inside.
void multiply_short_blocks(const TileArgs& first) {
    constexpr int kWords = 4, kPerChunk = Int8Dot::kWords / kWords;
    TileArgs t = first;
    for (std::int64_t tile = 0; tile < t.tiles; ++tile, t.next(kTileCols)) {
        Accumulators acc;
        load_tile(t, acc);
        const auto* const a_panel = reinterpret_cast<const std::int32_t*>(t.a);
        const auto* b = reinterpret_cast<const std::int32_t*>(t.b);
        const float *a_scales = t.a_scales, *b_scales = t.b_scales;
        const std::int32_t* sums = t.a_sums;
        const std::int64_t blocks = (t.k + 15) / 16;
        for (std::int64_t q = 0; q < blocks; ++q) {
            const std::int32_t* a =
                a_panel + q / kPerChunk * (kTileRows * Int8Dot::kWords) + q % kPerChunk * kWords;
            I words[kWords][kTileVectors];
#pragma GCC unroll 4
            for (int w = 0; w < kWords; ++w) {
                words[w][0] = _mm512_load_si512(b + w * kTileCols);
                words[w][1] = _mm512_load_si512(b + w * kTileCols + kLanes);
            }
#pragma GCC unroll 6
            for (int i = 0; i < kTileRows; ++i) {
                const F row = set(a_scales[i]);
                I sum[kTileVectors] = {Int8Dot::start(sums, i), Int8Dot::start(sums, i)};
#pragma GCC unroll 4
                for (int w = 0; w < kWords; ++w) {
                    const I word = broadcast(a + i * Int8Dot::kWords + w);
                    sum[0] = Int8Dot::dot(sum[0], word, words[w][0]);
                    sum[1] = Int8Dot::dot(sum[1], word, words[w][1]);
                }
#pragma GCC unroll 2
                for (int j = 0; j < kTileVectors; ++j) {
                    acc[i][j] = mul_add(int_to_float(sum[j]), mul(row, load(b_scales + j * kLanes)),
                                        acc[i][j]);
                }
            }
            b += kWords * kTileCols;
            a_scales += kTileRows;
            b_scales += kTileCols;
            sums += kTileRows;
        }
        store_tile(t, acc);
    }
}

template <int kBlock, class Scales>
constexpr auto kMultiply = multiply_blocks<Int8Dot, kBlock / 4, Scales>;

template <int kBlock>
constexpr PanelKernel kPanels{
    .a = {kTileRows, true, pack_a},
    .b = {kTileCols, false, pack_b},
    .carrier_bytes = 1,
    .block = kBlock,
    .slice = 4096,
    .multiply = {kMultiply<kBlock, EachScaled<product>>,
                 kBlock == 32 ? kMultiply<kBlock, EachScaled<sum_of_bits>> : nullptr,
                 kMultiply<kBlock, RowsScaled>, nullptr},
};

template <>
constexpr PanelKernel kPanels<16>{
    .a = {kTileRows, true, pack_a},
    .b = {kTileCols, false, pack_b},
    .carrier_bytes = 1,
    .block = 16,
    .slice = 4096,
    .multiply = {multiply_short_blocks},
};

}  // namespace

const PanelKernel& avx512_vnni_panels(int block) {
    return block == 128  ? kPanels<128>
           : block == 64 ? kPanels<64>
           : block == 32 ? kPanels<32>
                         : kPanels<16>;
}

}  // namespace subbyte::kernels
