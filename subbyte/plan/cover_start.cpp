// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/cover_start.h"

#include <algorithm>

namespace subbyte::plan {
namespace {

using Column = CoverProblem::Column;

// From one column of a set to the next one on the hull of its costs over gains.
struct Step {
    double ratio;  // cost per gain
    int from, to;
};

const Column& column_of(const CoverProblem& problem, int j) {
    static const Column none{-1, 0.0, 0.0};
    return j < 0 ? none : problem.columns[static_cast<std::size_t>(j)];
}

double slope(const Column& a, const Column& b) { return (b.cost - a.cost) / (b.gain - a.gain); }

std::vector<Step> hull_steps(const CoverProblem& problem) {
    std::vector<std::vector<int>> sets(static_cast<std::size_t>(problem.sets));
    for (std::size_t j = 0; j < problem.columns.size(); ++j) {
        sets[static_cast<std::size_t>(problem.columns[j].set)].push_back(static_cast<int>(j));
    }
    std::vector<Step> steps;
    for (std::vector<int>& set : sets) {
        const auto at = [&](int j) -> const Column& { return column_of(problem, j); };
        std::stable_sort(set.begin(), set.end(), [&](int a, int b) {
            return at(a).gain != at(b).gain ? at(a).gain < at(b).gain : at(a).cost < at(b).cost;
        });
        std::vector<int> hull{-1};
        for (const int j : set) {
            if (at(j).gain <= at(hull.back()).gain) continue;
            while (hull.size() > 1 && slope(at(hull[hull.size() - 2]), at(hull.back())) >=
                                          slope(at(hull.back()), at(j))) {
                hull.pop_back();
            }
            hull.push_back(j);
        }
        for (std::size_t h = 1; h < hull.size(); ++h) {
            steps.push_back({slope(at(hull[h - 1]), at(hull[h])), hull[h - 1], hull[h]});
        }
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.ratio < b.ratio; });
    return steps;
}

// The cheapest exchange in one set that keeps the need covered; false when none is cheaper.
bool exchange(const CoverProblem& problem, std::vector<int>& taken) {
    const double slack = cover_sums(problem, taken).gain - problem.need;
    double best = 0;
    std::size_t best_set = 0;
    int best_column = -1;
    const auto consider = [&](std::size_t set, int j) {
        const Column &now = column_of(problem, taken[set]), &other = column_of(problem, j);
        if (now.gain - other.gain > slack || other.cost - now.cost >= best) return;
        best = other.cost - now.cost;
        best_set = set;
        best_column = j;
    };
    for (std::size_t set = 0; set < taken.size(); ++set) consider(set, -1);
    for (std::size_t j = 0; j < problem.columns.size(); ++j) {
        consider(static_cast<std::size_t>(problem.columns[j].set), static_cast<int>(j));
    }
    if (best == 0) return false;
    std::vector<int> changed = taken;
    changed[best_set] = best_column;
    // The sum over all sets is what counts, not the difference.
    if (cover_sums(problem, changed).gain < problem.need) return false;
    taken = std::move(changed);
    return true;
}

}  // namespace

CoverSums cover_sums(const CoverProblem& problem, const std::vector<int>& taken) {
    CoverSums sums;
    for (const int j : taken) {
        sums.cost += column_of(problem, j).cost;
        sums.gain += column_of(problem, j).gain;
    }
    return sums;
}

std::vector<int> greedy_cover(const CoverProblem& problem) {
    std::vector<int> taken(static_cast<std::size_t>(problem.sets), -1);
    double gain = 0;
    for (const Step& step : hull_steps(problem)) {
        if (gain >= problem.need) break;
        const Column& to = column_of(problem, step.to);
        taken[static_cast<std::size_t>(to.set)] = step.to;
        gain += to.gain - column_of(problem, step.from).gain;
    }
    if (cover_sums(problem, taken).gain < problem.need) return {};
    while (exchange(problem, taken)) {
    }
    return taken;
}

}  // namespace subbyte::plan
