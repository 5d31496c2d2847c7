// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/linear_belief.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "subbyte/core/error.h"

namespace subbyte::plan {

LinearBelief::LinearBelief(std::vector<double> mean, const std::vector<double>& deviation)
    : mean_(std::move(mean)), covariance_(mean_.size() * mean_.size(), 0.0) {
    if (deviation.size() != mean_.size()) {
        throw Error(ErrorCode::kUsage,
                    fmt::format("{} effects with {} deviations", mean_.size(), deviation.size()));
    }
    for (std::size_t i = 0; i < size(); ++i) {
        covariance_[i * size() + i] = deviation[i] * deviation[i];
    }
}

double LinearBelief::deviation(std::size_t effect) const {
    return std::sqrt(std::max(0.0, covariance_[effect * size() + effect]));
}

void LinearBelief::observe(const Terms& terms, double value, double variance) {
    std::vector<double> shared(size(), 0.0);  // covariance of every effect with the sum
    double expected = 0;
    for (const auto& [effect, factor] : terms) {
        expected += factor * mean_[effect];
        const double* row = &covariance_[effect * size()];
        for (std::size_t i = 0; i < size(); ++i) shared[i] += factor * row[i];
    }
    double total = variance;
    for (const auto& [effect, factor] : terms) total += factor * shared[effect];
    for (std::size_t i = 0; i < size(); ++i) {
        mean_[i] += shared[i] / total * (value - expected);
        double* row = &covariance_[i * size()];
        for (std::size_t j = 0; j < size(); ++j) row[j] -= shared[i] * shared[j] / total;
    }
}

}  // namespace subbyte::plan
