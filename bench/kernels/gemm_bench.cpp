// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
//
// GEMMs on packed codes against LibTorch's float32 and bfloat16 matmul, one thread, operands as
// they are stored (packing counts). All three run in turn, so that a busy machine slows them
// alike. Counters: Gop/s (2 M N K) of the median, and how many times faster than LibTorch (median
// of the rounds).
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <time.h>

#include <algorithm>
#include <string>
#include <vector>

#include "subbyte/core/philox.h"
#include "subbyte/kernels/gemm/gemm.h"
#include "subbyte/kernels/quantize/quantize.h"

namespace {

using subbyte::formats::QuantSpec;
namespace kernels = subbyte::kernels;

struct Shape {
    std::int64_t m, n, k;
};

struct Operand {
    std::vector<std::uint8_t> codes, scale_codes;
    std::vector<float> scales;
    float global = 1.0f;
    subbyte::formats::PackedView view() {
        return {codes.data(), scales.data(), scale_codes.data(), &global};
    }
};

Operand quantized(const at::Tensor& x, const QuantSpec& spec) {
    const std::int64_t rows = x.size(0), cols = x.size(1);
    Operand operand;
    operand.codes.resize(static_cast<std::size_t>(rows * subbyte::formats::row_bytes(spec, cols)));
    const auto tiles =
        static_cast<std::size_t>(subbyte::formats::TileGrid(spec.tile, rows, cols).count());
    operand.scales.resize(tiles);
    operand.scale_codes.resize(tiles);
    kernels::quantize({x.const_data_ptr<float>(), rows, cols, cols, 1}, spec, {}, operand.view());
    return operand;
}

// Time of this thread only: what other programs take does not count.
double thread_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Work>
double seconds(const Work& work) {
    const double begin = thread_seconds();
    work();
    return thread_seconds() - begin;
}

double median(std::vector<double> times) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
}

void run(benchmark::State& state, const QuantSpec& a_spec, const QuantSpec& b_spec,
         const Shape& shape) {
    const at::Tensor a32 = at::randn({shape.m, shape.k}), b32 = at::randn({shape.n, shape.k});
    const at::Tensor a16 = a32.to(at::kBFloat16), b16 = b32.to(at::kBFloat16);
    at::Tensor d32 = at::empty({shape.m, shape.n});
    at::Tensor d16 = at::empty({shape.m, shape.n}, at::TensorOptions().dtype(at::kBFloat16));
    Operand a = quantized(a32, a_spec), b = quantized(b32, b_spec);
    std::vector<float> d(static_cast<std::size_t>(shape.m * shape.n));
    const kernels::GemmProblem problem{shape.m, shape.n, shape.k, a_spec, b_spec};
    const kernels::GemmOperands operands{a.view(), b.view(), d.data()};
    // LibTorch has no fast BF16 matmul without the dot product; not asked for there.
    const bool bf16 = subbyte::has_bf16_dot();

    std::vector<double> own, over32, over16;
    state.SetLabel(std::string(kernels::gemm(problem, operands).kernel));
    at::mm_out(d32, a32, b32.t());
    if (bf16) at::mm_out(d16, a16, b16.t());
    for (auto _ : state) {
        own.push_back(seconds([&] { kernels::gemm(problem, operands); }));
        over32.push_back(seconds([&] { at::mm_out(d32, a32, b32.t()); }) / own.back());
        if (bf16) over16.push_back(seconds([&] { at::mm_out(d16, a16, b16.t()); }) / own.back());
        state.SetIterationTime(own.back());
    }
    state.counters["Gop/s"] = 2e-9 * static_cast<double>(shape.m * shape.n * shape.k) / median(own);
    state.counters["x_fp32"] = median(over32);
    if (bf16) state.counters["x_bf16"] = median(over16);
}

void add_benchmarks() {
    const std::vector<Shape> shapes{{1024, 1024, 1024}, {1024, 2736, 1024}, {1024, 1024, 2736},
                                    {2048, 768, 768},   {256, 512, 512},    {4096, 2048, 2048}};
    const std::vector<std::pair<std::string, std::string>> pairs{
        {"fp4", "e2m1:128x128:f32"},
        {"fp4", "fp4"},
        {"int4:1x128:f32", "int4:128x128:f32"},
        {"int8:1x128:f32", "int8:128x128:f32"},
        {"int8:1x128:f32", "e2m1:128x128:f32"},
        {"mxfp4", "mxfp4"},
        {"nvfp4", "nvfp4"},
        {"nvfp4", "e2m1:16x16:ue4m3+f32"},
        {"int8:1x32:f32", "int8:1x32:f32"},
        {"fp8", "e4m3:128x128:f32"},
        {"mxfp8", "mxfp8"},
        {"mxfp6e2m3", "mxfp6e2m3"},
        {"mxfp6e3m2", "mxfp6e3m2"},
        {"fp8", "e2m1:128x128:f32"},
        {"bf16", "e2m1:128x128:f32"}};
    for (const Shape& shape : shapes) {
        for (const auto& [a, b] : pairs) {
            const QuantSpec a_spec = subbyte::formats::parse_spec(a);
            const QuantSpec b_spec = subbyte::formats::parse_spec(b);
            benchmark::RegisterBenchmark(
                fmt::format("gemm/{}x{}x{}/{}/{}", shape.m, shape.n, shape.k, a, b).c_str(), run,
                a_spec, b_spec, shape)
                ->UseManualTime()
                ->MinTime(0.15)
                ->Unit(benchmark::kMillisecond);
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    at::set_num_threads(1);
    add_benchmarks();
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
