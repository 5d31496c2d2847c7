// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// A matrix and its transpose quantised in one pass, against the reference, bit by bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/core/parallel.h"
#include "tests/kernels/quantize_operands.h"

namespace subbyte::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr NoiseAddress kOtherNoise{0xFEDCBA9876543210, 3, 5, 10};

std::vector<std::string> all_kernels() {
    std::vector<std::string> kernels = vector_kernels();
    kernels.emplace_back("reference");
    return kernels;
}

void expect_same(const Packed& actual, const Packed& expected, const std::string& what) {
    EXPECT_EQ(actual.codes, expected.codes) << what;
    EXPECT_TRUE(same_bits(actual.scales, expected.scales)) << what;
    EXPECT_EQ(actual.scale_codes, expected.scale_codes) << what;
    EXPECT_EQ(actual.levels, expected.levels) << what;
    EXPECT_EQ(actual.signs, expected.signs) << what;
}

void expect_both_equal(const MatrixView& x, const std::string& rows_text,
                       const std::string& columns_text) {
    const QuantSpec rows = parse_spec(rows_text), columns = parse_spec(columns_text);
    Packed expected_rows(rows, x.rows, x.cols), expected_columns(columns, x.cols, x.rows);
    formats::quantize_reference(x, rows, kNoise, expected_rows.view());
    formats::quantize_reference(transposed(x), columns, kOtherNoise, expected_columns.view());
    for (const std::string& kernel : all_kernels()) {
        const Forced forced(kernel);
        Packed by_row(rows, x.rows, x.cols), by_column(columns, x.cols, x.rows);
        quantize_both(x, {rows, kNoise, by_row.view()}, {columns, kOtherNoise, by_column.view()});
        const std::string what = kernel + " " + rows_text + " " + columns_text + " " +
                                 std::to_string(x.rows) + "x" + std::to_string(x.cols);
        expect_same(by_row, expected_rows, what);
        expect_same(by_column, expected_columns, what + " columns");
    }
}

TEST(QuantizeBoth, EveryPairGivesTheBitsOfTheReference) {
    const std::vector<std::string> specs{"e2m1:1x128:f32:sr",
                                         "e2m1:128x128:f32",
                                         "e4m3:1x128:f32",
                                         "int8:row:f32",
                                         "int4:tensor:f32:sr8",
                                         "nvfp4:sr",
                                         "e2m1:16x16:ue4m3+f32",
                                         "nvfp4:4over6",
                                         "mxfp4:sr",
                                         "mxfp6e2m3",
                                         "bf16",
                                         "bf16:sr",
                                         "nvfp4:rht64fresh:sr",
                                         "e2m1:1x16:ue4m3+f32:rht32:mseden",
                                         "e5m2:1x5:f32",
                                         "e3m2:3x7:ue4m3+f32",
                                         "e2m1:1x16:ue4m3+f32@1x128:sr",
                                         "int8:2x2000:f32"};
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{150, 301}, {1, 40}}) {
        const auto x = ordinary_matrix(rows * cols);
        for (const std::string& a : specs) {
            for (const std::string& b : specs) {
                expect_both_equal(contiguous(x, rows, cols), a, b);
                if (HasFailure()) return;
            }
        }
    }
    // A source that is a transposed view itself.
    const auto x = ordinary_matrix(150 * 301);
    for (const std::string& a : specs) {
        expect_both_equal({x.data(), 301, 150, 1, 301}, a, specs[0]);
    }
}

// Whole tiles down the columns are encoded where they stand. Neighbours with zeros, with values out
// of the common range and without a finite scale are not.
TEST(QuantizeBoth, TilesDownTheColumnsGiveTheBitsOfTheReference) {
    for (const auto& [rows, cols] :
         {std::pair<std::int64_t, std::int64_t>{256, 160}, {264, 131}, {128, 16}, {300, 48}}) {
        auto x = ordinary_matrix(rows * cols);
        for (const bool rare : {false, true}) {
            for (std::int64_t r = 0; rare && r < rows; ++r) {
                x[static_cast<std::size_t>(r * cols + 3)] = 0.0f;
                x[static_cast<std::size_t>(r * cols + 5)] *= 0x1p-130f;
            }
            if (rare) x[static_cast<std::size_t>((rows - 1) * cols + 7)] = kNan;
            expect_both_equal(contiguous(x, rows, cols), "e2m1:1x128:f32", "bf16");
            for (const char* element : {"e4m3", "e5m2", "e2m1", "int8", "int4"}) {
                for (const char* rest :
                     {":1x128:f32", ":1x128:f32:sr", ":1x128:f32:sr8", ":1x256:f32:sr", ":1x64:f32",
                      ":1x128:e8m0:sr", ":1x16:ue4m3+f32", ":1x16:ue4m3+f32:sr",
                      ":1x32:ue4m3+f32:guard", ":1x16:ue4m3:sr", ":1x32:e8m0/rceil",
                      ":1x32:e8m0/rceil:sr", ":1x32:e8m0/floor:guard", ":1x16:e8m0+f32:sr",
                      ":1x16:ue4m3+f32@1x128:sr"}) {
                    expect_both_equal(contiguous(x, rows, cols), "bf16",
                                      std::string(element) + rest);
                }
            }
        }
    }
}

// What is computed piece by piece is what the whole matrices give.
void expect_computed_equal(std::int64_t rows, std::int64_t cols, const std::string& rows_text,
                           const std::string& columns_text, std::size_t count) {
    const std::vector<float> x[] = {ordinary_matrix(rows * cols, 1),
                                    ordinary_matrix(rows * cols, 2)};
    const ComputedMatrices computed{
        rows, cols,
        [&](const ComputedMatrices::Piece& piece, float* const out[], std::int64_t stride) {
            for (std::size_t i = 0; i < count; ++i) {
                for (std::int64_t r = piece.row0; r < piece.row1; ++r) {
                    std::copy(x[i].begin() + r * cols + piece.col0,
                              x[i].begin() + r * cols + piece.col1,
                              out[i] + (r - piece.row0) * stride);
                }
            }
        }};
    const QuantSpec by_row = parse_spec(rows_text), by_column = parse_spec(columns_text);
    for (const std::string& kernel : all_kernels()) {
        const Forced forced(kernel);
        std::vector<Packed> actual, expected;
        for (std::size_t i = 0; i < count; ++i) {
            for (std::vector<Packed>* packed : {&actual, &expected}) {
                packed->emplace_back(by_row, rows, cols);
                packed->emplace_back(by_column, cols, rows);
            }
        }
        std::vector<QuantizeTargets> targets;
        for (std::size_t i = 0; i < count; ++i) {
            targets.push_back({{by_row, kNoise, actual[2 * i].view()},
                               {by_column, kOtherNoise, actual[2 * i + 1].view()}});
            quantize_both(contiguous(x[i], rows, cols), {by_row, kNoise, expected[2 * i].view()},
                          {by_column, kOtherNoise, expected[2 * i + 1].view()});
        }
        quantize_computed(computed, targets);
        for (std::size_t i = 0; i < actual.size(); ++i) {
            expect_same(actual[i], expected[i],
                        kernel + " " + rows_text + " " + columns_text + " " + std::to_string(i));
        }
    }
}

TEST(QuantizeBoth, ComputedMatricesGiveTheBitsOfStoredOnes) {
    for (const char* rows :
         {"fp4:sr", "nvfp4:sr", "int8:128x128:f32", "bf16", "nvfp4:rht64fresh:sr", "e4m3:row:f32",
          "int8:2x2000:f32", "e5m2:tensor:f32", "nf4:1x64:f32"}) {
        for (const char* columns : {"fp4", "nvfp4:sr", "e4m3:128x128:f32", "int8:row:f32"}) {
            expect_computed_equal(150, 301, rows, columns, 1);
            expect_computed_equal(300, 1100, rows, columns, 2);
            expect_computed_equal(1, 40, rows, columns, 2);
        }
    }
    expect_computed_equal(0, 5, "fp4", "fp8", 1);
    expect_computed_equal(5, 0, "nvfp4", "fp8", 2);
}

TEST(QuantizeBoth, WideAndTallMatricesAreCutIntoRegions) {
    for (const auto& [rows, cols] :
         {std::pair<std::int64_t, std::int64_t>{3, 2600}, {2600, 3}, {400, 1100}}) {
        const auto x = ordinary_matrix(rows * cols);
        for (const char* a : {"fp4:sr", "nvfp4", "int8:128x128:f32", "bf16"}) {
            for (const char* b : {"fp4:sr", "nvfp4:sr", "e4m3:128x128:f32", "bf16"}) {
                expect_both_equal(contiguous(x, rows, cols), a, b);
            }
        }
    }
}

TEST(QuantizeBoth, ResultsDoNotDependOnThreads) {
    set_parallel_for([](std::int64_t count, std::int64_t,
                        const std::function<void(std::int64_t, std::int64_t)>& body) {
        std::vector<std::thread> threads;
        for (std::int64_t first = 0; first < 3; ++first) {
            threads.emplace_back([&body, first, count] {
                for (std::int64_t i = first; i < count; i += 3) body(i, i + 1);
            });
        }
        for (std::thread& thread : threads) thread.join();
    });
    const auto x = ordinary_matrix(400 * 1100);
    for (const char* spec : {"fp4:sr", "nvfp4:sr", "int8:tensor:f32", "nvfp4:rht64fresh:sr"}) {
        expect_both_equal(contiguous(x, 400, 1100), spec, spec);
    }
    set_parallel_for(nullptr);
}

TEST(QuantizeBoth, MissingMemoryIsAnError) {
    const auto x = ordinary_matrix(8 * 8);
    const QuantSpec spec = parse_spec("fp8");
    Packed packed(spec, 8, 8);
    PackedView none = packed.view();
    none.codes = nullptr;
    EXPECT_THROW(
        quantize_both(contiguous(x, 8, 8), {spec, kNoise, packed.view()}, {spec, kNoise, none}),
        Error);
}

TEST(QuantizeBoth, EmptyMatricesAreAccepted) {
    const std::vector<float> none;
    expect_both_equal({nullptr, 0, 5, 5, 1}, "nvfp4:sr", "fp8");
    expect_both_equal({nullptr, 5, 0, 0, 1}, "nvfp4:rht16fresh:sr", "int8:tensor:f32");
}

}  // namespace
}  // namespace subbyte::kernels
