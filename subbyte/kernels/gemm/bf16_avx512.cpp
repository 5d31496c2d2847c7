// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Everything that is exact in bfloat16 (8, 6 and 4 bits, BF16 itself, in any pair) by the
// bfloat16 dot product. Products are exact; a block is summed in float32, then scaled. The result
// is within (K + blocks + 3) * 2^-24 of the sum of absolute products. The dot product takes
// subnormal bfloat16 values (below 2^-126) for zero; no 8-bit or 4-bit code is one.
#include "subbyte/kernels/gemm/kernels.h"
#include "subbyte/kernels/gemm/tiles_avx512-inl.h"

namespace subbyte::kernels {
namespace {

struct Bf16Dot {
    using Sum = F;
    static constexpr int kWords = kChunk / 2;
    static F start(const std::int32_t*, int) { return set(0.0f); }
    static const std::int32_t* next(const std::int32_t* sums) { return sums; }
    static F dot(F sum, I a, I b) {
        asm volatile("vdpbf16ps %1, %2, %0" : "+v"(sum) : "v"(a), "v"(b));
        return sum;
    }
    static F to_float(F sum) { return sum; }
};

// Calls work.operator()<Decoder>() with the decoder of the source.
template <class Work>
void with_decoder(const CodeRows& source, const Work& work) {
    const auto call = [&]<class Decode>() {
        if (source.powers != nullptr) {
            work.template operator()<WithPowers<Decode>>();
        } else {
            work.template operator()<Decode>();
        }
    };
    switch (source.element->bits) {
        case 4: call.template operator()<NibbleToBf16>(); break;
        case 6: call.template operator()<SixToBf16>(); break;
        case 16: call.template operator()<Bf16ToBf16>(); break;
        default:
            if (source.element->kind == formats::ElementKind::kInteger) {
                call.template operator()<Int8ToBf16>();
            } else {
                call.template operator()<Fp8ToBf16>();
            }
    }
}

void pack_a(const CodeRows& source, std::int64_t first, int, std::uint8_t* data, std::int32_t*) {
    with_decoder(source, [&]<class Decode>() {
        pack_rows<Decode>(source, first, data, [](std::int64_t, int, const I*) {});
    });
}

void pack_b(const CodeRows& source, std::int64_t first, int, std::uint8_t* data, std::int32_t*) {
    with_decoder(source, [&]<class Decode>() {
        pack_columns<Decode>(source, first, data, _mm512_setzero_si512());
    });
}

template <int kBlock, class Scales>
constexpr auto kMultiply = multiply_blocks<Bf16Dot, kBlock / 2, Scales>;

template <int kBlock>
constexpr PanelKernel kPanels{
    .a = {kTileRows, false, pack_a},
    .b = {kTileCols, false, pack_b},
    .carrier_bytes = 2,
    .block = kBlock,
    .slice = 1024,
    .multiply = {kMultiply<kBlock, EachScaled<product>>, nullptr, kMultiply<kBlock, RowsScaled>,
                 kMultiply<kBlock, Unscaled>},
    .multiply_in_place = multiply_blocks<Bf16Dot, kBlock / 2, Unscaled, true>,
};

}  // namespace

const PanelKernel& avx512_bf16_panels(int block) {
    return block == 128  ? kPanels<128>
           : block == 64 ? kPanels<64>
           : block == 32 ? kPanels<32>
                         : kPanels<16>;
}

}  // namespace subbyte::kernels
