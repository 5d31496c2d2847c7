// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/reduce.h"

#include <ATen/Dispatch.h>
#include <ATen/Dispatch_v2.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "subbyte/core/error.h"
#include "subbyte/core/parallel.h"
#include "subbyte/ops/threads.h"

namespace subbyte::ops {
namespace {

constexpr std::int64_t kChunk = 4096;

// Sums term(x[i], y[i]) over all elements; y may be the same tensor.
template <typename Term>
double chunked_sum(const at::Tensor& a, const at::Tensor& b, Term term) {
    if (a.sizes() != b.sizes()) {
        throw Error(ErrorCode::kUsage, fmt::format("reduction over tensors of {} and {} elements",
                                                   a.numel(), b.numel()));
    }
    use_torch_threads();
    const at::Tensor x = a.contiguous(), y = b.contiguous();
    const std::int64_t count = x.numel();
    std::vector<double> partial(static_cast<std::size_t>((count + kChunk - 1) / kChunk), 0.0);
    AT_DISPATCH_V2(x.scalar_type(), "reduce", AT_WRAP([&] {
                       using T = scalar_t;
                       const T* px = x.const_data_ptr<T>();
                       const T* py = y.const_data_ptr<T>();
                       parallel_for(
                           static_cast<std::int64_t>(partial.size()), 8,
                           [&](std::int64_t begin, std::int64_t end) {
                               for (std::int64_t c = begin; c < end; ++c) {
                                   // Eight running sums: a fixed order that the compiler can
                                   // vectorise.
                                   double sums[8] = {};
                                   const std::int64_t last = std::min(count, (c + 1) * kChunk);
                                   std::int64_t i = c * kChunk;
                                   for (; i + 8 <= last; i += 8) {
                                       for (int j = 0; j < 8; ++j) {
                                           sums[j] += term(static_cast<double>(px[i + j]),
                                                           static_cast<double>(py[i + j]));
                                       }
                                   }
                                   double total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
                                                  ((sums[4] + sums[5]) + (sums[6] + sums[7]));
                                   for (; i < last; ++i) {
                                       total += term(static_cast<double>(px[i]),
                                                     static_cast<double>(py[i]));
                                   }
                                   partial[static_cast<std::size_t>(c)] = total;
                               }
                           });
                   }),
                   at::kFloat, at::kDouble, at::kBFloat16);
    double total = 0;
    for (const double value : partial) total += value;
    return total;
}

// Magnitudes compare like the integers that their bits are; a NaN is above infinity.
template <typename T>
double largest_magnitude(const T* x, std::int64_t count) {
    using Bits = std::conditional_t<sizeof(T) == 2, std::int16_t,
                                    std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>>;
    const auto magnitude = [x](std::int64_t i) {
        Bits bits;
        std::memcpy(&bits, x + i, sizeof(bits));
        return static_cast<Bits>(bits & std::numeric_limits<Bits>::max());
    };
    Bits best[32] = {};  // independent, for the compiler
    std::int64_t i = 0;
    for (; i + 32 <= count; i += 32) {
        for (int j = 0; j < 32; ++j) best[j] = std::max(best[j], magnitude(i + j));
    }
    Bits largest = *std::max_element(best, best + 32);
    for (; i < count; ++i) largest = std::max(largest, magnitude(i));
    return static_cast<double>(std::bit_cast<T>(largest));
}

}  // namespace

double sum(const at::Tensor& x) {
    return chunked_sum(x, x, [](double a, double) { return a; });
}

double squared_norm(const at::Tensor& x) {
    return chunked_sum(x, x, [](double a, double) { return a * a; });
}

double norm(const at::Tensor& x) { return std::sqrt(squared_norm(x)); }

double dot(const at::Tensor& a, const at::Tensor& b) {
    return chunked_sum(a, b, [](double x, double y) { return x * y; });
}

double difference_norm(const at::Tensor& a, const at::Tensor& b) {
    return std::sqrt(chunked_sum(a, b, [](double x, double y) { return (x - y) * (x - y); }));
}

double abs_max(const at::Tensor& x) {
    use_torch_threads();
    const at::Tensor y = x.contiguous();
    const std::int64_t count = y.numel();
    std::vector<double> partial(static_cast<std::size_t>((count + kChunk - 1) / kChunk), 0.0);
    AT_DISPATCH_V2(y.scalar_type(), "abs_max", AT_WRAP([&] {
                       const scalar_t* p = y.const_data_ptr<scalar_t>();
                       parallel_for(static_cast<std::int64_t>(partial.size()), 8,
                                    [&](std::int64_t begin, std::int64_t end) {
                                        for (std::int64_t c = begin; c < end; ++c) {
                                            const std::int64_t size =
                                                std::min(kChunk, count - c * kChunk);
                                            partial[static_cast<std::size_t>(c)] =
                                                largest_magnitude(p + c * kChunk, size);
                                        }
                                    });
                   }),
                   at::kFloat, at::kDouble, at::kBFloat16);
    double result = 0;
    for (const double value : partial) {
        // Written so that a NaN, which compares false, replaces any number and is never replaced.
        if (!(value <= result) && !std::isnan(result)) result = value;
    }
    return result;
}

bool all_finite(const at::Tensor& x) {
    // A sum of squares would overflow for large finite values; 0 * x is 0 or NaN.
    return chunked_sum(x, x, [](double a, double) { return a * 0.0; }) == 0.0;
}

}  // namespace subbyte::ops
