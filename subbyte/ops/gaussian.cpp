// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/gaussian.h"

#include <ATen/ops/empty.h>

#include <cmath>
#include <numbers>

#include "subbyte/core/parallel.h"
#include "subbyte/ops/threads.h"

namespace subbyte::ops {

at::Tensor gaussian(at::IntArrayRef shape, const NoiseAddress& address) {
    use_torch_threads();
    at::Tensor out = at::empty(shape, at::TensorOptions().dtype(at::kFloat));
    float* data = out.mutable_data_ptr<float>();
    const std::int64_t count = out.numel();
    parallel_for((count + 3) / 4, 1024, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t block = begin; block < end; ++block) {
            const PhiloxBlock bits = noise_block(address, static_cast<std::uint64_t>(block));
            for (int pair = 0; pair < 2; ++pair) {
                // u1 in (0, 1], so that the logarithm is finite.
                const double u1 = (static_cast<double>(bits[2 * pair]) + 1.0) * 0x1p-32;
                const double u2 = static_cast<double>(bits[2 * pair + 1]) * 0x1p-32;
                const double radius = std::sqrt(-2.0 * std::log(u1));
                const double angle = 2.0 * std::numbers::pi * u2;
                const std::int64_t i = 4 * block + 2 * pair;
                if (i < count) data[i] = static_cast<float>(radius * std::cos(angle));
                if (i + 1 < count) data[i + 1] = static_cast<float>(radius * std::sin(angle));
            }
        }
    });
    return out;
}

}  // namespace subbyte::ops
