// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// INT8, INT4, E2M1 (doubled) and E2M3 (times 8) widened to int16, by the multiply-add of int16
// pairs. Block sums are exact; the bits of the result are those of the VNNI kernel.
#include "subbyte/kernels/gemm/kernels.h"
#include "subbyte/kernels/gemm/tiles_avx2-inl.h"

namespace subbyte::kernels {
namespace {

struct Int16Dot {
    using Sum = I;
    static constexpr int kWords = kChunk / 2;
    static constexpr bool kColumnSums = false;
    static I start(const std::int32_t*) { return _mm256_setzero_si256(); }
    static I multiply_add(I sum, I a, I b) {
        I pairs;
        asm volatile("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
                     : "+x"(sum), "=&x"(pairs)
                     : "x"(a), "x"(b));
        return sum;
    }
    static F to_float(I sum) { return int_to_float(sum); }
};

void pack_a(const CodeRows& source, std::int64_t first, int, std::uint8_t* data, std::int32_t*) {
    switch (source.element->bits) {
        case 4: return pack_rows<NibbleToInt16>(source, first, data);
        case 6: return pack_rows<SixToInt16>(source, first, data);
        default: return pack_rows<Int8ToInt16>(source, first, data);
    }
}

void pack_b(const CodeRows& source, std::int64_t first, int, std::uint8_t* data, std::int32_t*) {
    const auto none = [](std::int64_t, int, I) {};
    switch (source.element->bits) {
        case 4: return pack_columns<NibbleToInt16>(source, first, data, none);
        case 6: return pack_columns<SixToInt16>(source, first, data, none);
        default: return pack_columns<Int8ToInt16>(source, first, data, none);
    }
}

template <int kBlock>
constexpr PanelKernel kPanels{
    .a = {kTileRows, false, pack_a},
    .b = {kTileCols, false, pack_b},
    .carrier_bytes = 2,
    .block = kBlock,
    .slice = 1024,
    .multiply = {multiply_blocks<Int16Dot, kBlock / 2>},
};

}  // namespace

const PanelKernel& avx2_maddwd_panels(int block) {
    return block == 128  ? kPanels<128>
           : block == 64 ? kPanels<64>
           : block == 32 ? kPanels<32>
                         : kPanels<16>;
}

}  // namespace subbyte::kernels
