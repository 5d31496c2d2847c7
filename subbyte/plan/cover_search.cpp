// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/cover_search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

namespace subbyte::plan {
namespace {

using Column = CoverProblem::Column;

constexpr std::size_t kMostNodes = std::size_t{1} << 23;  // 64 MiB of history
constexpr double kInfinite = std::numeric_limits<double>::infinity();

const Column& column_of(const CoverProblem& problem, int j) {
    static const Column none{-1, 0.0, 0.0};
    return j < 0 ? none : problem.columns[static_cast<std::size_t>(j)];
}

struct Sums {
    double cost = 0, gain = 0;
};

Sums sums_of(const CoverProblem& problem, const std::vector<int>& taken) {
    Sums sums;
    for (const int j : taken) {
        sums.cost += column_of(problem, j).cost;
        sums.gain += column_of(problem, j).gain;
    }
    return sums;
}

// From one column of a set to the next one on the convex hull of its costs over gains.
struct Step {
    double ratio;  // cost per gain
    int from, to;
};

std::vector<Step> hull_steps(const CoverProblem& problem,
                             const std::vector<std::vector<int>>& sets) {
    const auto at = [&](int j) -> const Column& { return column_of(problem, j); };
    const auto slope = [&](int a, int b) {
        return (at(b).cost - at(a).cost) / (at(b).gain - at(a).gain);
    };
    std::vector<Step> steps;
    for (std::vector<int> set : sets) {
        std::stable_sort(set.begin(), set.end(), [&](int a, int b) {
            return at(a).gain != at(b).gain ? at(a).gain < at(b).gain : at(a).cost < at(b).cost;
        });
        std::vector<int> hull{-1};
        for (const int j : set) {
            if (at(j).gain <= at(hull.back()).gain) continue;
            while (hull.size() > 1 &&
                   slope(hull[hull.size() - 2], hull.back()) >= slope(hull.back(), j)) {
                hull.pop_back();
            }
            hull.push_back(j);
        }
        for (std::size_t h = 1; h < hull.size(); ++h) {
            steps.push_back({slope(hull[h - 1], hull[h]), hull[h - 1], hull[h]});
        }
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.ratio < b.ratio; });
    return steps;
}

class Search {
public:
    Search(const CoverProblem& problem, double gap)
        : problem_(problem), gap_(gap), sets_(static_cast<std::size_t>(problem.sets)) {
        for (std::size_t j = 0; j < problem.columns.size(); ++j) {
            sets_[static_cast<std::size_t>(problem.columns[j].set)].push_back(static_cast<int>(j));
        }
    }

    void offer(const std::vector<int>& taken) {
        const Sums sums = sums_of(problem_, taken);
        if (sums.gain < problem_.need || (best_.found && sums.cost >= best_.cost)) return;
        best_.found = true;
        best_.taken = taken;
        best_.cost = sums.cost;
    }

    // The linear relaxation, and the solutions next to it. False when nothing covers the need.
    bool relax() {
        base_.assign(sets_.size(), -1);
        double gain = 0;
        for (const Step& step : hull_steps(problem_, sets_)) {
            const Column& to = column_of(problem_, step.to);
            const double more = to.gain - column_of(problem_, step.from).gain;
            if (gain + more >= problem_.need) {
                price_ = step.ratio;
                std::vector<int> rounded = base_;
                rounded[static_cast<std::size_t>(to.set)] = step.to;
                offer(rounded);
                improve(rounded);
                break;
            }
            base_[static_cast<std::size_t>(to.set)] = step.to;
            gain += more;
        }
        return price_ > 0;
    }

    template <typename OutOfTime>
    void run(const OutOfTime& out_of_time) {
        const std::vector<std::size_t> order = core_order();
        const Sums base = sums_of(problem_, base_);
        std::vector<State> states{{base.gain, base.cost, -1}};
        dropped_ = kInfinite;
        for (std::size_t i = 0; i < order.size() && !states.empty(); ++i) {
            if (out_of_time() || nodes_.size() > kMostNodes) {
                for (const State& state : states) dropped_ = std::min(dropped_, bound(state));
                finish(false);
                return;
            }
            const double next = i + 1 < order.size() ? regret_[order[i + 1]] : kInfinite;
            states = extend(states, order[i], next);
        }
        finish(true);
    }

    CoverSolution best() const { return best_; }

private:
    struct State {
        double gain, cost;
        int node;  // the changes it is made of; -1: none
    };
    struct Node {
        int parent, column_or_set;  // a set that gives its column up is -2 - set
    };

    double priced(int j) const {
        const Column& column = column_of(problem_, j);
        return column.cost - price_ * column.gain;
    }

    // No choice that a state leads to costs less: whatever changes later is not below the price.
    double bound(const State& state) const {
        return state.cost + price_ * (problem_.need - state.gain);
    }
    double limit() const { return best_.found ? best_.cost * (1 - gap_) : kInfinite; }

    // Exchanges in one set as long as one makes a solution cheaper.
    void improve(std::vector<int> taken) {
        for (bool better = true; better;) {
            better = false;
            const double slack = sums_of(problem_, taken).gain - problem_.need;
            double most = 0;
            std::size_t set_of = 0;
            int other = -1;
            for (std::size_t set = 0; set < sets_.size(); ++set) {
                const Column& now = column_of(problem_, taken[set]);
                const auto consider = [&](int j) {
                    const Column& column = column_of(problem_, j);
                    if (now.gain - column.gain > slack || now.cost - column.cost <= most) return;
                    most = now.cost - column.cost;
                    set_of = set;
                    other = j;
                    better = true;
                };
                consider(-1);
                for (const int j : sets_[set]) consider(j);
            }
            if (better) taken[set_of] = other;
        }
        offer(taken);
    }

    // Sets by what the cheapest change costs beyond the price.
    std::vector<std::size_t> core_order() {
        std::vector<std::size_t> order(sets_.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        regret_.assign(sets_.size(), kInfinite);
        for (std::size_t set = 0; set < sets_.size(); ++set) {
            const auto consider = [&](int j) {
                if (j == base_[set]) return;
                regret_[set] =
                    std::min(regret_[set], std::max(0.0, priced(j) - priced(base_[set])));
            };
            consider(-1);
            for (const int j : sets_[set]) consider(j);
        }
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return regret_[a] < regret_[b]; });
        return order;
    }

    // Lets one set change in every state. `next`: what the cheapest later change costs at least.
    std::vector<State> extend(const std::vector<State>& states, std::size_t set, double next) {
        const Column& base = column_of(problem_, base_[set]);
        std::vector<State> all;
        const auto add = [&](const State& from, int j) {
            const Column& column = column_of(problem_, j);
            State state{from.gain + (column.gain - base.gain),
                        from.cost + (column.cost - base.cost), from.node};
            const double least = bound(state);
            if (least >= limit()) {
                dropped_ = std::min(dropped_, least);
                return;
            }
            if (j != base_[set]) {
                state.node = static_cast<int>(nodes_.size());
                nodes_.push_back({from.node, j >= 0 ? j : -2 - static_cast<int>(set)});
            }
            const bool cheaper = !best_.found || state.cost < best_.cost;
            if (state.gain >= problem_.need && cheaper) offer(choice_of(state));
            all.push_back(state);
        };
        for (const State& state : states) {
            add(state, base_[set]);
            if (base_[set] >= 0) add(state, -1);
            for (const int j : sets_[set]) {
                if (j != base_[set]) add(state, j);
            }
        }
        return undominated(all, next);
    }

    std::vector<State> undominated(std::vector<State>& all, double next) {
        std::stable_sort(all.begin(), all.end(), [](const State& a, const State& b) {
            return a.gain != b.gain ? a.gain > b.gain : a.cost < b.cost;
        });
        std::vector<State> kept;
        // Gains that differ by rounding only are the same gain.
        const double same = 1e-14 * problem_.need;
        for (const State& state : all) {
            const double least = bound(state) + next;
            if (least >= limit()) {
                dropped_ = std::min(dropped_, least);
                continue;
            }
            if (!kept.empty() && state.cost >= kept.back().cost) continue;
            if (!kept.empty() && kept.back().gain - state.gain <= same) kept.pop_back();
            kept.push_back(state);
        }
        return kept;
    }

    std::vector<int> choice_of(const State& state) const {
        std::vector<int> taken = base_;
        for (int n = state.node; n >= 0; n = nodes_[static_cast<std::size_t>(n)].parent) {
            const int j = nodes_[static_cast<std::size_t>(n)].column_or_set;
            if (j >= 0) {
                taken[static_cast<std::size_t>(column_of(problem_, j).set)] = j;
            } else {
                taken[static_cast<std::size_t>(-2 - j)] = -1;
            }
        }
        return taken;
    }

    void finish(bool ended) {
        best_.bound = std::max(0.0, std::min(best_.found ? best_.cost : kInfinite, dropped_));
        best_.proven = best_.found && (ended || best_.bound >= limit());
    }

    const CoverProblem& problem_;
    double gap_;
    std::vector<std::vector<int>> sets_;
    std::vector<int> base_;       // choice of the relaxation, rounded down
    std::vector<double> regret_;  // per set
    double price_ = 0;            // cost per gain
    double dropped_ = kInfinite;  // least bound of what was dropped
    std::vector<Node> nodes_;
    CoverSolution best_;
};

}  // namespace

CoverSolution search_cover(const CoverProblem& problem, const std::vector<int>& start,
                           double seconds, double gap) {
    const auto begin = std::chrono::steady_clock::now();
    const auto out_of_time = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() >=
               seconds;
    };
    Search search(problem, gap);
    if (!start.empty()) search.offer(start);
    if (!out_of_time() && search.relax()) search.run(out_of_time);
    return search.best();
}

}  // namespace subbyte::plan
