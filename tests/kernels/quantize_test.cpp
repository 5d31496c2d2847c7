// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// Every quantise and dequantise kernel of this machine against the reference, bit by bit.
#include "subbyte/kernels/quantize/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/core/parallel.h"
#include "subbyte/kernels/quantize/row_ops.h"
#include "tests/kernels/quantize_operands.h"

namespace subbyte::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kFltMax = std::numeric_limits<float>::max();

// Logarithms and tables; they have no vector loops for stochastic rounding.
const std::vector<std::string>& table_elements() {
    static const std::vector<std::string> names{"nf4",       "lns8",     "lns4",    "dynamic8",
                                                "udynamic8", "dynamic4", "ulinear4"};
    return names;
}

std::vector<std::string> all_specs() {
    std::vector<std::string> specs{"fp32", "bf16", "bf16:sr"};
    const std::vector<std::string> scales{"f32",       "e8m0/floor", "e8m0/ceil", "e8m0/rceil",
                                          "e8m0/even", "ue4m3",      "ue4m3+f32"};
    for (const char* element :
         {"e4m3", "e5m2", "e2m1", "int8", "int4", "e2m3", "e3m2", "e3m4", "mxint8"}) {
        for (const char* tile : {"tensor", "row", "1x16", "1x32", "1x128", "16x16", "128x128",
                                 "1x5", "3x7", "2x2000"}) {
            for (const std::string& scale : scales) {
                const std::string base = std::string(element) + ":" + tile + ":" + scale;
                specs.push_back(base);
                specs.push_back(base + ":sr");
            }
        }
        for (const char* rest : {":1x16:ue5m3+f32",
                                 ":1x16:ue5m3h+f32:sr",
                                 ":16x16:ue5m3",
                                 ":1x5:ue5m3h",
                                 ":row:f32:sr8",
                                 ":1x32:e8m0/rceil:sr8",
                                 ":1x16:ue4m3+f32:guard:sr",
                                 ":1x16:ue4m3:guard:sr8",
                                 ":1x32:e8m0/floor:guard:sr",
                                 ":3x7:ue5m3+f32:teb",
                                 ":1x16:ue4m3+f32:rht16",
                                 ":1x16:ue4m3+f32:rht32fresh:sr",
                                 ":1x128:f32:rht64",
                                 ":row:f32:rht128fresh:sr8",
                                 ":tensor:f32:rht16fresh",
                                 ":1x5:e8m0/even:rht32",
                                 ":128x128:f32:rht128",
                                 ":1x32:e8m0/floor:rht16:guard:sr",

                                 ":2x2000:f32:rht64",
                                 ":1x16:ue4m3+f32:away",
                                 ":1x32:e8m0/rceil:away",
                                 ":row:f32:away",
                                 ":1x128:f32:zero",
                                 ":1x32:e8m0/floor:zero",
                                 ":1x32:e8m0/ceil:up",
                                 ":tensor:f32:up",
                                 ":1x16:ue5m3:down",
                                 ":3x7:f32:down"}) {
            specs.push_back(std::string(element) + rest);
        }
    }
    for (const std::string& element : table_elements()) {
        for (const char* tile : {"tensor", "row", "1x16", "1x128", "16x16", "1x5", "3x7"}) {
            for (const std::string& scale : scales) {
                specs.push_back(element + ":" + tile + ":" + scale);
            }
        }
        for (const char* rest : {":1x64:f32:away", ":1x64:f32:zero", ":1x64:f32:up",
                                 ":row:f32:down", ":1x32:e8m0/floor:up", ":1x16:ue4m3+f32:down",
                                 ":1x5:ue5m3:away", ":1x128:f32:rht64", ":1x16:ue4m3+f32:guard"}) {
            specs.push_back(element + rest);
        }
    }
    return specs;
}

TEST(QuantizeKernels, EverySpecGivesTheBitsOfTheReference) {
    const std::int64_t rows = 35, cols = 301;
    const auto x = ordinary_matrix(rows * cols);
    for (const std::string& spec : all_specs()) {
        expect_all_equal(contiguous(x, rows, cols), spec, "contiguous");
        expect_all_equal({x.data(), cols, rows, 1, cols}, spec, "transposed");
        if (HasFailure()) return;
    }
}

TEST(QuantizeKernels, EveryRowLengthUpTo300) {
    const auto x = ordinary_matrix(3 * 300);
    for (const std::string& kernel : vector_kernels()) {
        for (const char* spec :
             {"fp8", "fp4:sr", "int8:1x128:f32:sr", "int4:1x32:e8m0", "nvfp4:sr", "e5m2:row:f32",
              "bf16:sr", "fp32", "mxfp6e2m3:sr", "e3m2:row:f32:rht64", "nvfp4:rht16:sr8",
              "int8:1x16:f32:rht128fresh", "nf4:1x64:f32", "lns8:row:f32", "dynamic8:1x256:f32"}) {
            for (std::int64_t cols = 0; cols <= 300; ++cols) {
                expect_equal(contiguous(x, 3, cols), spec, kernel, "length");
                if (HasFailure()) return;
            }
        }
    }
}

// Around every value and every border between two codes, and on a grid over the whole range.
TEST(QuantizeKernels, EveryBorderOfATableIsWhereTheReferenceHasIt) {
    for (const std::string& name : table_elements()) {
        const formats::ElementFormat& element = *formats::find_element(name);
        std::vector<float> x;
        const auto around = [&](float value) {
            float low = value, high = value;
            x.push_back(value);
            for (int ulps = 0; ulps < 3; ++ulps) {
                low = std::nextafter(low, -2.0f);
                high = std::nextafter(high, 2.0f);
                x.push_back(low);
                x.push_back(high);
            }
        };
        std::vector<float> values;
        for (std::uint32_t code = 0; code < 1u << element.bits; ++code) {
            values.push_back(formats::decode(element, code));
        }
        std::sort(values.begin(), values.end());
        for (std::size_t i = 0; i < values.size(); ++i) {
            around(values[i]);
            if (i > 0) around((values[i] + values[i - 1]) / 2.0f);
        }
        for (int i = -20000; i <= 20000; ++i) x.push_back(static_cast<float>(i) / 20000.0f);
        for (int i = 0; i < 30000; ++i) x.push_back(std::exp2(static_cast<float>(i) / -1000.0f));
        for (float& value : x) value = std::clamp(value, -1.0f, 1.0f);
        x.push_back(-0.0f);
        x.push_back(1.0f);  // makes the scale of the row 1
        for (const char* rest :
             {":row:f32", ":row:f32:away", ":row:f32:zero", ":row:f32:up", ":row:f32:down"}) {
            expect_all_equal(contiguous(x, 1, static_cast<std::int64_t>(x.size())), name + rest,
                             "borders");
        }
    }
}

TEST(QuantizeKernels, EmptyMatricesAreAccepted) {
    for (const std::string& kernel : vector_kernels()) {
        for (const char* spec : {"fp8", "fp4:sr", "nvfp4", "mxfp4", "bf16", "fp32"}) {
            expect_equal({nullptr, 0, 0, 0, 1}, spec, kernel, "empty");
            expect_equal({nullptr, 0, 5, 5, 1}, spec, kernel, "empty");
            expect_equal({nullptr, 5, 0, 0, 1}, spec, kernel, "empty");
        }
    }
}

// What lies between the rows of a view must not be seen.
TEST(QuantizeKernels, PaddingOfAViewIsNeverRead) {
    const std::int64_t stride = 200;
    for (float padding : {1e30f, kNan}) {
        for (std::int64_t rows : {1, 3}) {
            for (std::int64_t cols : {1, 2, 15, 17, 31, 33, 127, 129, 130}) {
                std::vector<float> big(static_cast<std::size_t>(rows * stride), padding);
                std::vector<float> turned(static_cast<std::size_t>(cols * stride), padding);
                for (std::int64_t r = 0; r < rows; ++r) {
                    for (std::int64_t c = 0; c < cols; ++c) {
                        const float value = ordinary(static_cast<std::uint64_t>(r * 977 + c));
                        big[static_cast<std::size_t>(r * stride + c)] = value;
                        turned[static_cast<std::size_t>(c * stride + r)] = value;
                    }
                }
                std::vector<float> copy;
                for (std::int64_t r = 0; r < rows; ++r) {
                    copy.insert(copy.end(), big.begin() + r * stride,
                                big.begin() + r * stride + cols);
                }
                for (const char* text : {"e4m3:1x16:f32", "e2m1:1x32:f32", "int8:1x128:f32",
                                         "e2m1:128x128:f32:sr", "mxfp4", "nvfp4", "bf16"}) {
                    const QuantSpec spec = parse_spec(text);
                    Packed whole(spec, rows, cols), view(spec, rows, cols),
                        transposed(spec, rows, cols);
                    formats::quantize_reference(contiguous(copy, rows, cols), spec, kNoise,
                                                whole.view());
                    for (const std::string& kernel : vector_kernels()) {
                        const Forced forced(kernel);
                        quantize({big.data(), rows, cols, stride, 1}, spec, kNoise, view.view());
                        quantize({turned.data(), rows, cols, 1, stride}, spec, kNoise,
                                 transposed.view());
                        EXPECT_EQ(view.codes, whole.codes) << text << " " << rows << "x" << cols;
                        EXPECT_EQ(transposed.codes, whole.codes)
                            << text << " " << rows << "x" << cols;
                        EXPECT_TRUE(same_bits(view.scales, whole.scales)) << text;
                        EXPECT_TRUE(same_bits(transposed.scales, whole.scales)) << text;
                        EXPECT_EQ(view.scale_codes, whole.scale_codes) << text;
                        EXPECT_EQ(transposed.scale_codes, whole.scale_codes) << text;
                    }
                }
            }
        }
    }
}

TEST(QuantizeKernels, GeneralStridesAreCopied) {
    const std::int64_t rows = 40, cols = 150;
    const auto x = ordinary_matrix(2 * rows * 3 * cols);
    for (const std::string& kernel : vector_kernels()) {
        for (const char* spec : {"fp8", "fp4:sr", "nvfp4", "bf16", "fp32", "int8:tensor:f32",
                                 "nvfp4:rht16", "mxfp6e3m2"}) {
            expect_equal({x.data(), rows, cols, 2 * 3 * cols, 3}, spec, kernel, "every third");
        }
    }
}

// One row per kind of block that has gone wrong somewhere.
std::vector<std::vector<float>> corner_rows(std::int64_t cols) {
    const auto n = static_cast<std::size_t>(cols);
    std::vector<std::vector<float>> rows;
    const auto fill = [&](float value) { rows.emplace_back(n, value); };
    const auto patch = [&](float value) {
        rows.push_back(ordinary_matrix(cols, rows.size()));
        rows.back()[n / 2] = value;
    };
    fill(0.0f);
    fill(-0.0f);
    fill(1e-30f);
    fill(kFltMax);
    fill(-1.0f);
    for (float value : {kNan, kInf, -kInf, kFltMax, -kFltMax, -0.0f, 0x1p-149f}) patch(value);
    for (std::uint32_t nan : {0x7F800001u, 0x7FFFFFFFu, 0xFFFFFFFFu, 0xFFC00000u}) {
        patch(std::bit_cast<float>(nan));
    }
    // Whole rows scaled into the subnormals, near them, and to the upper end.
    for (int exponent :
         {-149, -140, -130, -127, -126, -120, -100, -61, -60, 59, 60, 61, 100, 120}) {
        rows.push_back(ordinary_matrix(cols, rows.size()));
        for (float& value : rows.back()) value = std::ldexp(value, exponent);
    }
    // Every binade of float32 in one row.
    rows.emplace_back(n);
    for (std::size_t i = 0; i < n; ++i) {
        rows.back()[i] =
            std::ldexp(i % 2 == 0 ? 1.5f : -1.25f, static_cast<int>(i * 277 / n) - 149);
    }
    rows.push_back(std::vector<float>(n, 0.0f));
    rows.back()[n - 1] = kNan;
    rows.push_back(std::vector<float>(n, 0.0f));
    rows.back()[0] = 3.0f;
    return rows;
}

TEST(QuantizeKernels, CornerBlocksGiveTheBitsOfTheReference) {
    const std::int64_t cols = 143;
    const auto rows = corner_rows(cols);
    std::vector<float> x;
    for (const auto& row : rows) x.insert(x.end(), row.begin(), row.end());
    const auto count = static_cast<std::int64_t>(rows.size());
    for (const std::string& spec : all_specs()) {
        expect_all_equal(contiguous(x, count, cols), spec, "corners");
        expect_all_equal({x.data(), cols, count, 1, cols}, spec, "corners transposed");
        // Each row alone, so that second levels and tensor scales see it undisturbed.
        if (spec.find("tensor") == std::string::npos && spec.find("+f32") == std::string::npos) {
            continue;
        }
        for (const auto& row : rows) expect_all_equal(contiguous(row, 1, cols), spec, "corner row");
        if (HasFailure()) return;
    }
}

// x / scale has to be the correctly rounded quotient: amax and x over all mantissas, near ties too.
TEST(QuantizeKernels, QuotientsAreCorrectlyRounded) {
    const std::int64_t rows = 512, cols = 256;
    std::vector<float> x(static_cast<std::size_t>(rows * cols));
    for (std::int64_t r = 0; r < rows; ++r) {
        const std::uint64_t at = static_cast<std::uint64_t>(r) << 20;
        const float amax =
            std::ldexp(1.0f + std::abs(ordinary(at)) / 128.0f, static_cast<int>(r % 90) - 50);
        for (std::int64_t c = 0; c < cols; ++c) {
            // (k + 1/2) * amax / 240 ... land on and beside the ties of every format here.
            const float tie = (static_cast<float>(c) + 0.5f) / 256.0f * amax;
            float value = std::nextafter(tie, c % 3 == 0 ? 0.0f : c % 3 == 1 ? tie : kInf);
            if (c % 2 == 0) value = ordinary(at + static_cast<std::uint64_t>(c)) / 100.0f * amax;
            x[static_cast<std::size_t>(r * cols + c)] = value;
        }
        x[static_cast<std::size_t>(r * cols)] = amax;
    }
    for (const std::string& kernel : vector_kernels()) {
        for (const char* element :
             {"e4m3", "e5m2", "e2m1", "int8", "int4", "e2m3", "e3m2", "e3m4", "mxint8"}) {
            for (const char* rest : {":row:f32", ":row:f32:sr", ":row:f32:away", ":row:f32:zero",
                                     ":row:f32:up", ":row:f32:down"}) {
                expect_equal(contiguous(x, rows, cols), std::string(element) + rest, kernel,
                             "ties");
            }
        }
    }
}

// Ranges of `piece` items, last one first: neither the cut nor the order may matter.
ParallelFor backwards(std::int64_t piece) {
    return [piece](std::int64_t count, std::int64_t,
                   const std::function<void(std::int64_t, std::int64_t)>& body) {
        for (std::int64_t end = count; end > 0; end -= std::min(end, piece)) {
            body(std::max<std::int64_t>(0, end - piece), end);
        }
    };
}

// Three real threads that take single items in turn.
void three_threads(std::int64_t count, std::int64_t,
                   const std::function<void(std::int64_t, std::int64_t)>& body) {
    std::vector<std::thread> threads;
    for (std::int64_t first = 0; first < 3; ++first) {
        threads.emplace_back([&body, first, count] {
            for (std::int64_t i = first; i < count; i += 3) body(i, i + 1);
        });
    }
    for (std::thread& thread : threads) thread.join();
}

TEST(QuantizeKernels, ResultsDoNotDependOnHowRangesAreCut) {
    const std::int64_t rows = 300, cols = 1100;
    const auto x = ordinary_matrix(rows * cols);
    for (const char* spec :
         {"e4m3:128x128:f32", "fp4:sr", "nvfp4:sr", "int8:tensor:f32", "e5m2:row:f32", "mxfp4",
          "bf16:sr", "int4:1x5:f32", "nvfp4:rht64fresh:sr", "e3m2:1x20:f32:rht16", "mxfp6e2m3",
          "nvfp4:4over6:sr", "nvfp4:rht32fresh:mseden", "e2m1:1x16:ue4m3+f32@1x128:sr",
          "e2m1:1x341:f32:sr", "e2m1:3x7:ue4m3+f32"}) {
        Expected straight(contiguous(x, rows, cols), spec);
        Expected turned({x.data(), cols, rows, 1, cols}, spec);
        for (const std::string& kernel : vector_kernels()) {
            for (const ParallelFor& cut :
                 {backwards(1), backwards(3), backwards(1000), ParallelFor(three_threads)}) {
                set_parallel_for(cut);
                expect_equal(straight, kernel, "cut");
                expect_equal(turned, kernel, "cut transposed");
                set_parallel_for(nullptr);
            }
        }
    }
}

TEST(QuantizeKernels, FlushToZeroOfTheCallerChangesNothing) {
#if defined(__x86_64__)
    std::vector<float> x = ordinary_matrix(256);
    for (float& value : x) value = std::ldexp(value, -130);
    std::vector<std::string> kernels = vector_kernels();
    kernels.emplace_back("reference");
    for (const std::string& kernel : kernels) {
        for (const char* text : {"fp8", "mxfp8", "nvfp4", "int8:row:f32"}) {
            const QuantSpec spec = parse_spec(text);
            Packed expected(spec, 1, 256), actual(spec, 1, 256);
            std::vector<float> values(256), flushed(256);
            const Forced forced(kernel);
            quantize(contiguous(x, 1, 256), spec, kNoise, expected.view());
            dequantize(expected.view(), spec, 1, 256, values.data());
            const unsigned saved = __builtin_ia32_stmxcsr();
            __builtin_ia32_ldmxcsr(saved | 0x8040);
            quantize(contiguous(x, 1, 256), spec, kNoise, actual.view());
            dequantize(actual.view(), spec, 1, 256, flushed.data());
            const unsigned after = __builtin_ia32_stmxcsr();
            __builtin_ia32_ldmxcsr(saved);
            EXPECT_EQ(after & 0x8040u, 0x8040u) << "the caller's mode must be given back";
            EXPECT_EQ(actual.codes, expected.codes) << kernel << " " << text;
            EXPECT_TRUE(same_bits(actual.scales, expected.scales)) << kernel << " " << text;
            EXPECT_TRUE(same_bits(flushed, values)) << kernel << " " << text;
        }
    }
#else
    SUCCEED();
#endif
}

// Codes that quantisation never produces (NaN codes, -128, -8) decode as the reference says.
TEST(DequantizeKernels, EveryCodeDecodes) {
    for (const std::string& kernel : vector_kernels()) {
        const Forced forced(kernel);
        std::vector<std::string> elements{"e4m3", "e5m2", "e2m1", "int8",  "int4",
                                          "e2m3", "e3m2", "e3m4", "mxint8"};
        elements.insert(elements.end(), table_elements().begin(), table_elements().end());
        for (const std::string& element : elements) {
            for (std::int64_t shift : {0, 1, 5}) {
                const QuantSpec spec = parse_spec(element + ":1x7:f32");
                const std::int64_t cols = 256 + shift;
                Packed packed(spec, 1, cols);
                for (std::size_t i = 0; i < packed.codes.size(); ++i) {
                    packed.codes[i] =
                        static_cast<std::uint8_t>(i + static_cast<std::size_t>(shift));
                }
                for (std::size_t i = 0; i < packed.scales.size(); ++i) {
                    packed.scales[i] = std::ldexp(1.1f, static_cast<int>(i * 7) - 149);
                }
                std::vector<float> expected(static_cast<std::size_t>(cols)), actual(expected);
                formats::dequantize_reference(packed.view(), spec, 1, cols, expected.data());
                dequantize(packed.view(), spec, 1, cols, actual.data());
                EXPECT_TRUE(same_bits(actual, expected)) << kernel << " " << element;
            }
        }
        const QuantSpec bf16 = parse_spec("bf16");
        Packed packed(bf16, 1, 65536);
        for (std::size_t i = 0; i < packed.codes.size(); ++i) {
            packed.codes[i] = static_cast<std::uint8_t>(i % 2 == 0 ? i / 2 : i / 512);
        }
        std::vector<float> expected(65536), actual(65536);
        formats::dequantize_reference(packed.view(), bf16, 1, 65536, expected.data());
        dequantize(packed.view(), bf16, 1, 65536, actual.data());
        EXPECT_TRUE(same_bits(actual, expected)) << kernel << " bf16";
    }
}

// The address of a block has 48 bits; a matrix that large cannot be tested through quantize itself.
TEST(QuantizeKernels, NoiseWordsAreThoseOfTheirBlocks) {
    for (const std::string& kernel : vector_kernels()) {
        const RowOps& ops = kernel == "avx512" ? avx512_row_ops() : avx2_row_ops();
        for (std::uint64_t first :
             {std::uint64_t{0}, std::uint64_t{0xFFFFFFF0}, std::uint64_t{0xFFFFFFFA},
              std::uint64_t{1} << 32, (std::uint64_t{3} << 40) - 5}) {
            std::vector<std::uint16_t> words(8 * 48);
            ops.noise(kNoise, first, 37, words.data());
            for (std::uint64_t i = 0; i < 8 * 37; ++i) {
                ASSERT_EQ(words[i], noise_bits16(kNoise, 8 * first + i)) << kernel << " " << first;
            }
        }
    }
}

TEST(QuantizeKernels, NoiseOfARowBeginsAnywhere) {
    for (std::int64_t cols = 1; cols <= 40; ++cols) {
        const std::int64_t rows = 20;
        const std::vector<float> x(static_cast<std::size_t>(rows * cols), 2.5f);
        for (const std::string& kernel : vector_kernels()) {
            // With scale 1 every 2.5 becomes 2 or 3 by its own noise bit.
            expect_equal(contiguous(x, rows, cols), "e2m1:1x16:e8m0/floor:sr", kernel, "noise");
        }
    }
}

}  // namespace
}  // namespace subbyte::kernels
