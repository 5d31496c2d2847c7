// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/estimator_score.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace subbyte::plan {
namespace {

std::vector<double> ranks(const std::vector<double>& values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
    std::vector<double> rank(values.size());
    for (std::size_t first = 0; first < order.size();) {
        std::size_t end = first + 1;
        while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
        for (std::size_t i = first; i < end; ++i) {
            rank[order[i]] = 0.5 * static_cast<double>(first + end - 1);
        }
        first = end;
    }
    return rank;
}

}  // namespace

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
    const std::vector<double> x = ranks(a), y = ranks(b);
    const double mean = 0.5 * (static_cast<double>(a.size()) - 1);
    double xy = 0, xx = 0, yy = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        xy += (x[i] - mean) * (y[i] - mean);
        xx += (x[i] - mean) * (x[i] - mean);
        yy += (y[i] - mean) * (y[i] - mean);
    }
    return xx == 0 || yy == 0 ? 0.0 : xy / std::sqrt(xx * yy);
}

double median_ratio(const std::vector<double>& estimate, const std::vector<double>& real) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < real.size(); ++i) {
        if (estimate[i] > 0 && real[i] > 0) ratios.push_back(estimate[i] / real[i]);
    }
    if (ratios.empty()) return 0;
    std::sort(ratios.begin(), ratios.end());
    const std::size_t half = ratios.size() / 2;
    return ratios.size() % 2 == 1 ? ratios[half] : 0.5 * (ratios[half - 1] + ratios[half]);
}

}  // namespace subbyte::plan
