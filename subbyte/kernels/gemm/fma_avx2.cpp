// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Every element in any pair, decoded to float panels and multiplied by FMA. A block is summed in
// float32, then scaled. The result is within (K + blocks + 3) * 2^-24 of the sum of absolute
// products.
#include "subbyte/kernels/gemm/kernels.h"
#include "subbyte/kernels/gemm/tiles_avx2-inl.h"

namespace subbyte::kernels {
namespace {

struct FloatDot {
    using Sum = F;
    static constexpr int kWords = kChunk;
    static constexpr bool kColumnSums = false;
    static F start(const std::int32_t*) { return set(0.0f); }
    static F multiply_add(F sum, I a, I b) {
        asm volatile("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
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
        case 4: call.template operator()<NibbleToFloat>(); break;
        case 6: call.template operator()<TableToFloat<6>>(); break;
        case 16: call.template operator()<Bf16ToFloat>(); break;
        default:
            if (source.element->kind == formats::ElementKind::kInteger) {
                call.template operator()<Int8ToFloat>();
            } else if (source.element->exponent_bits == 5) {
                call.template operator()<E5m2ToFloat>();
            } else if (source.element->exponent_bits == 4) {
                call.template operator()<E4m3ToFloat>();
            } else {
                call.template operator()<TableToFloat<8>>();
            }
    }
}

void pack_a(const CodeRows& source, std::int64_t first, int, std::uint8_t* data, std::int32_t*) {
    with_decoder(source, [&]<class Decode>() { pack_rows<Decode>(source, first, data); });
}

void pack_b(const CodeRows& source, std::int64_t first, int, std::uint8_t* data, std::int32_t*) {
    with_decoder(source, [&]<class Decode>() {
        pack_columns<Decode>(source, first, data, [](std::int64_t, int, I) {});
    });
}

template <int kBlock>
constexpr PanelKernel kPanels{
    .a = {kTileRows, false, pack_a},
    .b = {kTileCols, false, pack_b},
    .carrier_bytes = 4,
    .block = kBlock,
    .slice = 256,
    .multiply = {multiply_blocks<FloatDot, kBlock>},
};

}  // namespace

const PanelKernel& avx2_fma_panels(int block) {
    return block == 128  ? kPanels<128>
           : block == 64 ? kPanels<64>
           : block == 32 ? kPanels<32>
                         : kPanels<16>;
}

}  // namespace subbyte::kernels
