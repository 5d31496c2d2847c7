// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/ops/sample_labels.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "subbyte/core/parallel.h"
#include "subbyte/ops/threads.h"

namespace subbyte::ops {

at::Tensor sample_labels(const at::Tensor& logits, const NoiseAddress& address) {
    use_torch_threads();
    const at::Tensor flat = logits.detach().contiguous();
    const std::int64_t vocabulary = flat.size(-1), rows = flat.numel() / vocabulary;
    const float* const data = flat.const_data_ptr<float>();
    at::Tensor labels = at::empty(flat.sizes().slice(0, flat.sizes().size() - 1), at::kLong);
    auto* const label = labels.mutable_data_ptr<std::int64_t>();
    parallel_for(rows, 16, [&](std::int64_t begin, std::int64_t end) {
        std::vector<double> sums(static_cast<std::size_t>(vocabulary));
        for (std::int64_t row = begin; row < end; ++row) {
            const float* const z = data + row * vocabulary;
            const double largest = *std::max_element(z, z + vocabulary);
            double sum = 0;
            for (std::size_t v = 0; v < sums.size(); ++v) {
                sum += std::exp(z[v] - largest);
                sums[v] = sum;
            }
            const PhiloxBlock bits = noise_block(address, static_cast<std::uint64_t>(row));
            const double uniform =
                (static_cast<double>(bits[0]) + static_cast<double>(bits[1]) * 0x1p-32) * 0x1p-32;
            const auto found = std::upper_bound(sums.begin(), sums.end() - 1, uniform * sum);
            label[row] = found - sums.begin();
        }
    });
    return labels;
}

}  // namespace subbyte::ops
