// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Which quantise kernel runs, and what it says when it does not.
#include "subbyte/core/error.h"
#include "tests/kernels/quantize_operands.h"

namespace subbyte::kernels {
namespace {

TEST(KernelChoice, ForcedKernelsRunAndUnknownOnesAreErrors) {
    const QuantSpec spec = parse_spec("fp8");
    const auto chosen = [](const std::vector<Candidate>& candidates) {
        std::string name;
        for (const Candidate& candidate : candidates) {
            if (!candidate.chosen) continue;
            EXPECT_EQ(candidate.refusal, "");
            EXPECT_EQ(name, "") << "two kernels chosen";
            name = candidate.kernel;
        }
        return name;
    };
    {
        const Forced forced("reference");
        EXPECT_EQ(chosen(explain_quantize(spec, false)), "reference");
        EXPECT_EQ(chosen(explain_dequantize(spec)), "reference");
    }
    EXPECT_EQ(chosen(explain_quantize(spec, false)), isa_name(max_isa()));
    EXPECT_THROW(force_kernels("quantize"), Error);
    EXPECT_THROW(force_kernels("quantise=avx2"), Error);
    force_kernels("quantize=nonsense");
    const std::vector<float> x(4, 1.0f);
    Packed packed(spec, 1, 4);
    EXPECT_THROW(quantize(contiguous(x, 1, 4), spec, kNoise, packed.view()), Error);
    force_kernels("");
}

TEST(KernelChoice, SpecsWithoutVectorLoopsRunOnTheReferenceAndSayWhy) {
    const std::vector<float> x = ordinary_matrix(5 * 70);
    for (const char* text : {"e3m4fn:1x32:e8m0/rceil", "nf4:1x64:f32:sr", "lns8:row:f32:sr",
                             "e5m1:1x16:f32", "fp4:sr7", "nvfp4:4over6:zero", "nvfp4:torchao",
                             "e2m1:1x16:ue4m3:ggml", "e2m1:row:ue4m3+f32:4over6",
                             "e2m1:1x16:ue4m3+f32@1x64:rht64:mseden", "int8:row:f32:recip"}) {
        const QuantSpec spec = parse_spec(text);
        for (const auto& candidates : {explain_quantize(spec, false), explain_dequantize(spec)}) {
            for (const Candidate& candidate : candidates) {
                EXPECT_EQ(candidate.chosen, candidate.isa == Isa::kReference) << text;
                if (candidate.isa == Isa::kReference || candidate.isa > max_isa()) continue;
                EXPECT_NE(candidate.refusal.find("reference only so far"), std::string::npos)
                    << text << ": " << candidate.refusal;
            }
        }
        expect_equal(contiguous(x, 5, 70), text, "reference", "dispatched");
    }
}

TEST(KernelChoice, WrongArgumentsAreErrors) {
    const QuantSpec spec = parse_spec("nvfp4");
    const std::vector<float> x(4, 1.0f);
    Packed packed(spec, 1, 4);
    PackedView view = packed.view();
    view.global_scale = nullptr;
    EXPECT_THROW(quantize(contiguous(x, 1, 4), spec, kNoise, view), Error);
    view = packed.view();
    view.scale_codes = nullptr;
    EXPECT_THROW(quantize(contiguous(x, 1, 4), spec, kNoise, view), Error);
    EXPECT_THROW(quantize({x.data(), -1, 4, 4, 1}, spec, kNoise, packed.view()), Error);
    EXPECT_THROW(quantize({nullptr, 1, 4, 4, 1}, spec, kNoise, packed.view()), Error);
    view = packed.view();
    view.signs = nullptr;
    const QuantSpec rotated = parse_spec("nvfp4:rht16fresh");
    EXPECT_THROW(quantize(contiguous(x, 1, 4), rotated, kNoise, view), Error);
}

}  // namespace
}  // namespace subbyte::kernels
