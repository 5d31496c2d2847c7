// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// E2M1 (doubled: an integer up to 12) and INT4 by the multiply-add of unsigned with signed bytes.
// A is stored as value + 12; what that adds, 12 * (sum of the block of B), is taken off in the
// start value of each sum. Pairs of products are summed in int16 over a block of at most 128 codes:
// in each lane 64 products of at most 12 * 12, so the true sum fits, and what wraps on the way
// comes back. The bits of the result are those of the VNNI kernel.
#include "subbyte/kernels/gemm/kernels.h"
#include "subbyte/kernels/gemm/tiles_avx2-inl.h"

namespace subbyte::kernels {
namespace {

constexpr int kOffset = 12;

struct NibbleDot {
    using Sum = I;
    static constexpr int kWords = kChunk / 4;
    static constexpr bool kColumnSums = true;
    static I start(const std::int32_t* sums) {
        return _mm256_load_si256(reinterpret_cast<const I*>(sums));
    }
    static I multiply_add(I sum, I a, I b) {
        I pairs;
        asm volatile("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0"
                     : "+x"(sum), "=&x"(pairs)
                     : "x"(a), "x"(b));
        return sum;
    }
    static F to_float(I sum) { return int_to_float(_mm256_madd_epi16(sum, _mm256_set1_epi16(1))); }
};

void pack_a(const CodeRows& source, std::int64_t first, int, std::uint8_t* data, std::int32_t*) {
    pack_rows<NibbleToByte<kOffset>>(source, first, data);
}

void pack_b(const CodeRows& source, std::int64_t first, int block, std::uint8_t* data,
            std::int32_t* sums) {
    const std::int64_t words = block / 4;
    I sum = _mm256_setzero_si256();
    pack_columns<NibbleToByte<0>>(
        source, first, data, [&](std::int64_t word, int half, I carriers) {
            const I pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(kOffset), carriers);
            sum = _mm256_sub_epi16(sum, pairs);
            if ((word + 1) % words != 0) return;
            store_int(sums + word / words * kTileCols + half * kLanes, sum);
            sum = _mm256_setzero_si256();
        });
}

template <int kBlock>
constexpr PanelKernel kPanels{
    .a = {kTileRows, false, pack_a},
    .b = {kTileCols, true, pack_b},
    .carrier_bytes = 1,
    .block = kBlock,
    .slice = kBlock >= 64 ? 4096 : 1024,
    .multiply = {multiply_blocks<NibbleDot, kBlock / 4>},
};

}  // namespace

const PanelKernel& avx2_maddubs_panels(int block) {
    return block == 128  ? kPanels<128>
           : block == 64 ? kPanels<64>
           : block == 32 ? kPanels<32>
                         : kPanels<16>;
}

}  // namespace subbyte::kernels
