// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace subbyte::plan {

// What is believed about the effects of many switches whose effects add up: a joint Gaussian, which
// observations of sums narrow (Bayesian linear regression, one Kalman step per observation).
class LinearBelief {
public:
    // Effects that are independent so far. Error kUsage when the sizes differ.
    LinearBelief(std::vector<double> mean, const std::vector<double>& deviation);

    std::size_t size() const { return mean_.size(); }
    double mean(std::size_t effect) const { return mean_[effect]; }
    double deviation(std::size_t effect) const;

    using Terms = std::vector<std::pair<std::size_t, double>>;  // effect, factor
    // sum of factor * effect was seen to be `value`, with an error of this variance (> 0).
    void observe(const Terms& terms, double value, double variance);

private:
    std::vector<double> mean_, covariance_;  // row-major, size x size
};

}  // namespace subbyte::plan
