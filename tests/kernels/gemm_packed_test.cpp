// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels that multiply packed codes, against sums in double precision.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "subbyte/core/parallel.h"
#include "tests/kernels/gemm_checks.h"

namespace subbyte::kernels {
namespace {

using formats::parse_spec;
using formats::QuantSpec;

// Sizes around the tiles (6 x 32, 6 x 16), the blocks and the slices of K.
const std::vector<Shape> kShapes{{1, 1, 1},    {1, 5, 2},    {2, 3, 5},      {7, 31, 33},
                                 {6, 32, 128}, {33, 127, 7}, {127, 33, 129}, {5, 7, 2736},
                                 {3, 17, 300}, {13, 65, 47}, {7, 33, 5500},  {31, 2, 127}};

const std::vector<std::pair<std::string, std::string>> kTilePairs{
    {"1x128:f32", "128x128:f32"},
    {"1x128:f32", "1x128:f32"},
    {"row:f32", "tensor:f32"},
    {"1x256:f32", "3x384:f32"},
    {"1x64:f32", "1x128:f32"},
    {"1x32:e8m0", "1x32:e8m0"},
    {"1x16:ue4m3+f32", "16x16:ue4m3+f32"},
    {"1x32:e8m0", "1x16:ue4m3"},
    {"5x48:f32", "1x32:f32"}};

std::string spec_text(const std::string& element, const std::string& tile) {
    return element == "bf16" ? element : element + ":" + tile;
}

TEST(PackedGemm, EveryPairStaysWithinItsBoundOfTheDoubleSum) {
    for (const KernelUnderTest& kernel : kKernels) {
        if (!available(kernel.name)) continue;
        for (const std::string& a_element : kernel.elements) {
            for (const std::string& b_element : kernel.elements) {
                for (const auto& [a_tile, b_tile] : kTilePairs) {
                    const QuantSpec a_spec = parse_spec(spec_text(a_element, a_tile));
                    const QuantSpec b_spec = parse_spec(spec_text(b_element, b_tile));
                    for (const Shape& s : {Shape{13, 65, 200}, Shape{7, 33, 77}}) {
                        Operand a = pack(values(s.m * s.k, 1), s.m, s.k, a_spec);
                        Operand b = pack(values(s.n * s.k, 2), s.n, s.k, b_spec);
                        const auto d = multiply(s, a_spec, a, b_spec, b, kernel.name);
                        EXPECT_LE(largest_error_over_bound(s, a, b, d, roundings(kernel, s.k)), 1)
                            << kernel.name << " " << to_string(a_spec) << " x " << to_string(b_spec)
                            << " K " << s.k;
                    }
                }
            }
        }
    }
}

TEST(PackedGemm, EveryShapeStaysWithinItsBoundOfTheDoubleSum) {
    for (const KernelUnderTest& kernel : kKernels) {
        if (!available(kernel.name)) continue;
        for (const std::string& element : kernel.elements) {
            for (const auto& [a_tile, b_tile] : {kTilePairs[0], kTilePairs[5], kTilePairs[6]}) {
                const QuantSpec a_spec = parse_spec(spec_text(element, a_tile));
                const QuantSpec b_spec = parse_spec(spec_text(element, b_tile));
                for (const Shape& s : kShapes) {
                    Operand a = pack(values(s.m * s.k, 3), s.m, s.k, a_spec);
                    Operand b = pack(values(s.n * s.k, 4), s.n, s.k, b_spec);
                    const auto d = multiply(s, a_spec, a, b_spec, b, kernel.name);
                    EXPECT_LE(largest_error_over_bound(s, a, b, d, roundings(kernel, s.k)), 1)
                        << kernel.name << " " << to_string(a_spec) << " " << s.m << " x " << s.n
                        << " x " << s.k;
                }
            }
        }
    }
}

// All codes, also those that quantisation never makes (-8, -128).
TEST(PackedGemm, EveryCodeCounts) {
    for (const KernelUnderTest& kernel : kKernels) {
        if (!available(kernel.name)) continue;
        for (const std::string& a_element : kernel.elements) {
            for (const std::string& b_element : kernel.elements) {
                const QuantSpec a_spec = parse_spec(spec_text(a_element, "row:f32"));
                const QuantSpec b_spec = parse_spec(spec_text(b_element, "row:f32"));
                const Shape s{19, 35, 256};
                Operand a = pack(values(s.m * s.k, 1), s.m, s.k, a_spec);
                Operand b = pack(values(s.n * s.k, 2), s.n, s.k, b_spec);
                for (auto& [operand, spec, rows] :
                     {std::tuple{&a, &a_spec, s.m}, std::tuple{&b, &b_spec, s.n}}) {
                    const auto stride = static_cast<std::size_t>(formats::row_bytes(*spec, s.k));
                    for (std::size_t i = 0; i < operand->codes.size(); ++i) {
                        std::uint8_t& code = operand->codes[i];
                        code = static_cast<std::uint8_t>(i * 7 + i / 256);
                        // Some rows hold one code only: the largest sums there are.
                        constexpr std::uint8_t kLargest[] = {0x77, 0xFF, 0x88, 0x7F, 0x80};
                        if (i / stride < 5) code = kLargest[i / stride];
                        // Finite numbers only, and no bf16 of a size that overflows.
                        if (spec->element->bits == 16) {
                            code = i % 2 == 0 ? code : static_cast<std::uint8_t>(0x30 + code % 32);
                        } else if (spec->element->bits == 8 &&
                                   !std::isfinite(formats::decode(*spec->element, code))) {
                            code &= 0xBF;
                        }
                    }
                    formats::dequantize_reference(operand->view(), *spec, rows, s.k,
                                                  operand->decoded.data());
                }
                const auto d = multiply(s, a_spec, a, b_spec, b, kernel.name);
                EXPECT_LE(largest_error_over_bound(s, a, b, d, roundings(kernel, s.k)), 1)
                    << kernel.name << " " << a_element << " x " << b_element;
            }
        }
    }
}

TEST(PackedGemm, TilesThatAreNotFiniteReachExactlyTheirResults) {
    const Shape s{9, 34, 300};
    for (const KernelUnderTest& kernel : kKernels) {
        if (!available(kernel.name)) continue;
        for (const std::string& element : kernel.elements) {
            for (const char* tile : {"1x128:f32", "1x32:e8m0", "1x16:ue4m3+f32"}) {
                const QuantSpec spec = parse_spec(spec_text(element, tile));
                std::vector<float> x = values(s.m * s.k, 1), y = values(s.n * s.k, 2);
                x[static_cast<std::size_t>(4 * s.k + 299)] =
                    std::numeric_limits<float>::quiet_NaN();
                y[static_cast<std::size_t>(33 * s.k)] = std::numeric_limits<float>::infinity();
                Operand a = pack(x, s.m, s.k, spec), b = pack(y, s.n, s.k, spec);
                const auto d = multiply(s, spec, a, spec, b, kernel.name);
                for (std::int64_t i = 0; i < s.m; ++i) {
                    for (std::int64_t j = 0; j < s.n; ++j) {
                        EXPECT_EQ(std::isfinite(d[static_cast<std::size_t>(i * s.n + j)]),
                                  i != 4 && j != 33)
                            << kernel.name << " " << to_string(spec) << " " << i << ", " << j;
                    }
                }
            }
        }
    }
}

// Scales at both ends of float32, zero tiles beside large ones, infinite scales.
TEST(PackedGemm, ExtremeScales) {
    const Shape s{7, 33, 256};
    for (const KernelUnderTest& kernel : kKernels) {
        if (!available(kernel.name)) continue;
        for (const std::string& element : kernel.elements) {
            if (element == "bf16") continue;
            for (const char* tile : {"1x128:f32", "1x32:e8m0"}) {
                const QuantSpec spec = parse_spec(spec_text(element, tile));
                for (const float size : {0x1p-140f, 0x1p-60f, 1.0f, 0x1p+60f}) {
                    std::vector<float> x = values(s.m * s.k, 1), y = values(s.n * s.k, 2);
                    for (float& v : x) v *= size;
                    for (float& v : y) v *= size == 1 ? 1 : size < 1 ? 0x1p100f : 0x1p-100f;
                    std::fill(x.begin() + s.k, x.begin() + s.k + 140, 0.0f);  // zero tiles
                    Operand a = pack(x, s.m, s.k, spec), b = pack(y, s.n, s.k, spec);
                    const auto d = multiply(s, spec, a, spec, b, kernel.name);
                    EXPECT_LE(largest_error_over_bound(s, a, b, d, roundings(kernel, s.k)), 1)
                        << kernel.name << " " << to_string(spec) << " times " << size;
                }
            }
        }
        const QuantSpec spec = parse_spec(kernel.elements[0] + ":1x128:f32");
        Operand a = pack(values(s.m * s.k, 1), s.m, s.k, spec);
        Operand b = pack(values(s.n * s.k, 2), s.n, s.k, spec);
        a.scales[3] = std::numeric_limits<float>::infinity();  // row 1
        const auto d = multiply(s, spec, a, spec, b, kernel.name);
        for (std::size_t i = 0; i < d.size(); ++i) {
            EXPECT_EQ(std::isfinite(d[i]), i / 33 != 1) << kernel.name;
        }
    }
}

TEST(PackedGemm, SameBitsForAnyNumberOfThreads) {
    const Shape s{61, 131, 700};
    for (const KernelUnderTest& kernel : kKernels) {
        if (!available(kernel.name)) continue;
        for (const auto& [a_tile, b_tile] : kTilePairs) {
            const QuantSpec a_spec = parse_spec(spec_text(kernel.elements[0], a_tile));
            const QuantSpec b_spec = parse_spec(spec_text(kernel.elements.back(), b_tile));
            Operand a = pack(values(s.m * s.k, 1), s.m, s.k, a_spec);
            Operand b = pack(values(s.n * s.k, 2), s.n, s.k, b_spec);
            const auto alone = multiply(s, a_spec, a, b_spec, b, kernel.name);
            for (const std::int64_t threads : {2, 5}) {
                set_parallel_for(
                    [threads](std::int64_t count, std::int64_t,
                              const std::function<void(std::int64_t, std::int64_t)>& body) {
                        std::vector<std::thread> pool;
                        for (std::int64_t t = 0; t < threads; ++t) {
                            const std::int64_t begin = count * t / threads;
                            const std::int64_t end = count * (t + 1) / threads;
                            if (begin < end)
                                pool.emplace_back([&body, begin, end] { body(begin, end); });
                        }
                        for (std::thread& thread : pool) thread.join();
                    });
                const auto split = multiply(s, a_spec, a, b_spec, b, kernel.name);
                set_parallel_for({});
                EXPECT_EQ(std::memcmp(alone.data(), split.data(), alone.size() * sizeof(float)), 0)
                    << kernel.name << " " << to_string(a_spec) << " " << threads;
            }
        }
    }
}

// Memory that ends where an unreadable page begins.
class GuardedBytes {
public:
    GuardedBytes(const void* data, std::size_t bytes) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const std::size_t whole = (bytes + page - 1) / page * page;
        size_ = whole + page;
        base_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base_ == MAP_FAILED) throw std::bad_alloc();
        mprotect(static_cast<std::uint8_t*>(base_) + whole, page, PROT_NONE);
        begin_ = static_cast<std::uint8_t*>(base_) + whole - bytes;
        std::memcpy(begin_, data, bytes);
    }
    ~GuardedBytes() { munmap(base_, size_); }
    GuardedBytes(const GuardedBytes&) = delete;
    GuardedBytes& operator=(const GuardedBytes&) = delete;
    std::uint8_t* begin() const { return begin_; }

private:
    void* base_;
    std::size_t size_;
    std::uint8_t* begin_;
};

// The product of operands and into a matrix that end where memory does.
void expect_nothing_behind(const Shape& s, const QuantSpec& spec, const std::string& kernel) {
    Operand a = pack(values(s.m * s.k, 1), s.m, s.k, spec);
    Operand b = pack(values(s.n * s.k, 2), s.n, s.k, spec);
    const std::vector<float> d = multiply(s, spec, a, spec, b, kernel);
    const Forced forced(kernel);
    const auto guard = [](const auto& v) {
        return std::make_unique<GuardedBytes>(v.data(), v.size() * sizeof v[0]);
    };
    const auto d_guard = guard(std::vector<float>(d.size()));
    std::vector<std::unique_ptr<GuardedBytes>> memory;
    const auto guarded = [&](Operand& operand) {
        memory.push_back(guard(operand.codes));
        memory.push_back(guard(operand.scales));
        memory.push_back(guard(operand.scale_codes));
        const auto at = [&](std::size_t back) { return memory[memory.size() - back]->begin(); };
        return formats::PackedView{at(3), reinterpret_cast<float*>(at(2)), at(1),
                                   operand.levels.data(), operand.signs.data()};
    };
    const formats::PackedView a_view = guarded(a), b_view = guarded(b);
    gemm({s.m, s.n, s.k, spec, spec}, {a_view, b_view, reinterpret_cast<float*>(d_guard->begin())});
    EXPECT_EQ(std::memcmp(d_guard->begin(), d.data(), d.size() * sizeof(float)), 0)
        << kernel << " " << to_string(spec) << " " << s.m << " x " << s.n << " x " << s.k;
}

// Inline assembly reads where no sanitizer looks.
TEST(PackedGemm, NothingBehindTheOperandsIsTouched) {
    for (const KernelUnderTest& kernel : kKernels) {
        if (!available(kernel.name)) continue;
        for (const std::string& element : kernel.elements) {
            for (const char* tile : {"1x128:f32", "1x32:e8m0"}) {
                for (const Shape& s : kShapes) {
                    if (s.k > 300) continue;
                    expect_nothing_behind(s, parse_spec(spec_text(element, tile)), kernel.name);
                }
            }
        }
        if (kernel.exact_blocks) continue;
        // Codes that are multiplied where they lie, with a last panel of one to five rows.
        for (const Shape& s : {Shape{97, 99, 24000}, Shape{98, 97, 23992}, Shape{101, 97, 24000}}) {
            expect_nothing_behind(s, parse_spec("bf16"), kernel.name);
        }
    }
}

// Exact block sums, the same scale products and the same order of blocks.
TEST(PackedGemm, IntegerKernelsGiveTheSameBits) {
    if (max_isa() < Isa::kAvx512) return;
    for (const std::string element : {"e2m1", "int4", "int8", "e2m3"}) {
        for (const auto& [a_tile, b_tile] : kTilePairs) {
            const QuantSpec a_spec = parse_spec(spec_text(element, a_tile));
            const QuantSpec b_spec = parse_spec(spec_text(element == "int8"   ? "int4"
                                                          : element == "e2m3" ? "mxint8"
                                                                              : "e2m1",
                                                          b_tile));
            for (const Shape& s : kShapes) {
                Operand a = pack(values(s.m * s.k, 1), s.m, s.k, a_spec);
                Operand b = pack(values(s.n * s.k, 2), s.n, s.k, b_spec);
                const auto bits = [&](const char* kernel) {
                    std::vector<std::uint32_t> words(static_cast<std::size_t>(s.m * s.n));
                    const auto d = multiply(s, a_spec, a, b_spec, b, kernel);
                    std::memcpy(words.data(), d.data(), d.size() * sizeof(float));
                    return words;
                };
                const auto vnni = bits("avx512_vnni");
                EXPECT_EQ(bits("avx2_maddwd"), vnni);
                if (element == "int8" || element == "e2m3") continue;
                EXPECT_EQ(bits("avx2_maddubs"), vnni);
            }
        }
    }
}

// Panels of float of an operand this large do not fit the scratch memory at once.
TEST(PackedGemm, LargeOperandsArePackedInParts) {
    if (max_isa() < Isa::kAvx2) return;
    const std::int64_t rows = 4200, k = 4096, part = 3;
    const QuantSpec spec = parse_spec("int4:row:f32");
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * k / 2));
    for (std::size_t i = 0; i < codes.size(); ++i) {
        codes[i] = static_cast<std::uint8_t>(i * 2654435761u >> 16);
    }
    std::vector<float> scales(static_cast<std::size_t>(rows), 0.5f);
    const auto from = [&](std::int64_t row) {
        return formats::PackedView{codes.data() + row * k / 2, scales.data(), nullptr, nullptr};
    };
    const auto product = [&](std::int64_t m, std::int64_t first, std::int64_t n) {
        const Forced forced("avx2_fma");
        std::vector<float> d(static_cast<std::size_t>(m * n));
        gemm({m, n, k, spec, spec}, {from(0), from(first), d.data()});
        return d;
    };
    const std::vector<float> wide = product(part, 0, rows), tall = product(rows, 0, part);
    const std::vector<float> end = product(part, rows - part, part);
    for (std::int64_t i = 0; i < part; ++i) {
        for (std::int64_t j = 0; j < part; ++j) {
            EXPECT_EQ(wide[static_cast<std::size_t>(i * rows + rows - part + j)],
                      end[static_cast<std::size_t>(i * part + j)]);
            // All of it is exact: the sums are small integers.
            EXPECT_EQ(tall[static_cast<std::size_t>((rows - part + j) * part + i)],
                      end[static_cast<std::size_t>(i * part + j)]);
        }
    }
}

// Operands too large for the caches: codes that need no decoding are multiplied where they lie. The
// last panel of A is short; a K that is no multiple of 8 is packed as always.
TEST(PackedGemm, LongContractionsStayWithinTheirBound) {
    const QuantSpec spec = parse_spec("bf16");
    for (const KernelUnderTest& kernel : kKernels) {
        if (!available(kernel.name) || kernel.exact_blocks) continue;
        for (const Shape& s : {Shape{97, 99, 24000}, Shape{98, 97, 23992}, Shape{97, 97, 24002}}) {
            Operand a = pack(values(s.m * s.k, 1), s.m, s.k, spec);
            Operand b = pack(values(s.n * s.k, 2), s.n, s.k, spec);
            const auto d = multiply(s, spec, a, spec, b, kernel.name);
            EXPECT_LE(largest_error_over_bound(s, a, b, d, roundings(kernel, s.k)), 1)
                << kernel.name << " K " << s.k;
            std::vector<float> sum(d.size(), 1.0f);
            const Forced forced(kernel.name);
            gemm({s.m, s.n, s.k, spec, spec},
                 {.a = a.view(), .b = b.view(), .d = sum.data(), .add = true});
            for (std::size_t i = 0; i < d.size(); ++i) ASSERT_EQ(sum[i], 1.0f + d[i]);
        }
    }
}

TEST(PackedGemm, RefusalsNameTheReason) {
    const auto reason = [](const char* a, const char* b, std::string_view kernel) {
        for (const Candidate& candidate : explain_gemm({4, 4, 512, parse_spec(a), parse_spec(b)})) {
            if (candidate.kernel == kernel) return candidate.refusal;
        }
        return Refusal("no such kernel");
    };
    if (max_isa() < Isa::kAvx512) {
        EXPECT_NE(reason("fp4", "fp4", "avx512_vnni").find("needs avx512"), std::string::npos);
        return;
    }
    EXPECT_EQ(reason("fp4", "int8:tensor:f32", "avx512_vnni"), "");
    EXPECT_EQ(reason("fp4", "fp8", "avx512_vnni"),
              "operand B is e4m3: this kernel takes e2m1, e2m3, int4, int8, mxint8");
    EXPECT_EQ(reason("fp32", "fp4", "avx512_vnni"), "operand A is fp32");
    EXPECT_EQ(reason("fp4", "e2m1:1x8:f32", "avx512_vnni"),
              "scale tiles of 8 columns: this kernel takes multiples of 16");
}

TEST(PackedGemm, EmptySizes) {
    const QuantSpec spec = parse_spec("fp4");
    for (const KernelUnderTest& kernel : kKernels) {
        if (!available(kernel.name)) continue;
        const Forced forced(kernel.name);
        gemm({0, 3, 4, spec, spec}, {{}, {}, nullptr});
        std::vector<float> d(6, 5.0f);
        gemm({2, 3, 0, spec, spec}, {{}, {}, d.data()});
        EXPECT_EQ(d, std::vector<float>(6, 0.0f)) << "a sum over nothing is zero";
    }
}

}  // namespace
}  // namespace subbyte::kernels
