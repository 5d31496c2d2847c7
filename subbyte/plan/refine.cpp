// Copyright (c) the subbyte authors
// SPDX-License-Identifier: Apache-2.0
#include "subbyte/plan/refine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <set>

#include "subbyte/core/error.h"
#include "subbyte/core/philox.h"
#include "subbyte/plan/linear_belief.h"

namespace subbyte::plan {
namespace {

using Choice = std::vector<int>;

constexpr int kLeastMoves = 2, kTries = 8;

void check(const SelectionProblem& problem, const Choice& start, const RefineOptions& options) {
    if (!options.hints.empty() && options.hints.size() != start.size()) {
        throw Error(ErrorCode::kUsage, fmt::format("refining {} items with hints for {}",
                                                   start.size(), options.hints.size()));
    }
    if (!options.unseen.empty() && options.unseen.size() != start.size()) {
        throw Error(ErrorCode::kUsage, fmt::format("refining {} items with unseen costs for {}",
                                                   start.size(), options.unseen.size()));
    }
    if (start.size() != problem.items.size()) {
        throw Error(ErrorCode::kUsage, fmt::format("refining {} items from a start of {}",
                                                   problem.items.size(), start.size()));
    }
    for (std::size_t i = 0; i < start.size(); ++i) {
        const SelectionProblem::Item& item = problem.items[i];
        if (start[i] < 0 || static_cast<std::size_t>(start[i]) >= item.cost.size()) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("refining: '{}' starts with option {}, it has {}", item.name,
                                    start[i], item.cost.size()));
        }
        if (!options.hints.empty() && options.hints[i].size() != item.cost.size()) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("refining: '{}' has {} options and {} hints", item.name,
                                    item.cost.size(), options.hints[i].size()));
        }
        if (!options.unseen.empty() && options.unseen[i].size() != item.cost.size()) {
            throw Error(ErrorCode::kUsage,
                        fmt::format("refining: '{}' has {} options and {} unseen costs", item.name,
                                    item.cost.size(), options.unseen[i].size()));
        }
        for (const double cost : item.cost) {
            if (std::isfinite(cost)) continue;
            throw Error(ErrorCode::kUsage,
                        fmt::format("refining: '{}' has an option of cost {}", item.name, cost));
        }
    }
}

double standard_normal(std::uint64_t seed, int draw, std::size_t effect) {
    const PhiloxBlock block =
        noise_block({.seed = seed, .step = static_cast<std::uint32_t>(draw)}, effect);
    const double u = (block[0] + 1.0) / 4294967296.0, v = block[1] / 4294967296.0;
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

// The search: what is believed, and the best choice so far.
class Search {
public:
    Search(const SelectionProblem& problem, const Choice& start, const ChoiceLoss& loss,
           const RefineOptions& options)
        : problem_(problem), loss_(loss), options_(options), moves_(options.moves) {
        problem_.start.clear();
        result_.choice = start;
        for (std::size_t i = 0; i < start.size(); ++i) {
            std::vector<double>& costs = problem_.items[i].cost;
            bool judged = options.unseen.empty();
            for (std::size_t o = 0; !options.unseen.empty() && o < costs.size(); ++o) {
                costs[o] -= options.unseen[i][o];
                judged = judged || costs[o] != 0;
            }
            judged_.push_back(judged);
        }
    }

    Refinement run() {
        if (options_.evaluations < 1) return result_;
        result_.start_loss = result_.loss = evaluate(result_.choice);
        if (options_.evaluations < 3 || !calibrate()) return result_;
        result_.start_unseen = result_.unseen = unseen(result_.choice);
        while (result_.evaluations < options_.evaluations) {
            const Choice candidate = propose();
            if (candidate.empty()) break;
            const double value = evaluate(candidate), rest = unseen(candidate);
            learn(candidate, value);
            if (value + rest < result_.loss + result_.unseen && value <= result_.start_loss) {
                result_.loss = value;
                result_.unseen = rest;
                result_.choice = candidate;
                ++result_.accepted;
                moves_ = std::min(moves_ + std::max(1, moves_ / 4), 4 * options_.moves);
            } else {
                // Having become small it begins anew: what one change cannot do, several may.
                moves_ = moves_ > kLeastMoves ? moves_ - std::max(1, moves_ / 8) : options_.moves;
            }
        }
        return result_;
    }

private:
    double evaluate(const Choice& choice) {
        ++result_.evaluations;
        seen_.insert(choice);
        return loss_(choice);
    }

    // In units of the loss.
    double unseen(const Choice& choice) const {
        double sum = 0;
        for (std::size_t i = 0; i < choice.size() && !options_.unseen.empty(); ++i) {
            sum += scale_ * options_.unseen[i][static_cast<std::size_t>(choice[i])];
        }
        return sum;
    }

    // Changes that the loss judges.
    int changed(const Choice& a, const Choice& b) const {
        int count = 0;
        for (std::size_t i = 0; i < a.size(); ++i) count += judged_[i] && a[i] != b[i];
        return count;
    }

    // Costs in units of the loss. Every item's cheapest option is what effects are counted from.
    bool calibrate() {
        Choice cheapest;
        double cost = 0;
        for (std::size_t i = 0; i < problem_.items.size(); ++i) {
            const std::vector<double>& costs = problem_.items[i].cost;
            auto least = std::min_element(costs.begin(), costs.end());
            if (!judged_[i]) least = costs.begin() + result_.choice[i];
            cheapest.push_back(static_cast<int>(least - costs.begin()));
            cost += costs[static_cast<std::size_t>(result_.choice[i])] - *least;
        }
        if (!(cost > 0)) return false;  // nothing is cheaper than the start
        scale_ = std::abs(result_.loss - evaluate(cheapest)) / cost;
        std::vector<double> mean;
        for (std::size_t i = 0; i < problem_.items.size(); ++i) {
            const std::vector<double>& costs = problem_.items[i].cost;
            const double least = costs[static_cast<std::size_t>(cheapest[i])];
            effects_.emplace_back(costs.size(), kNone);
            if (!judged_[i]) continue;
            for (std::size_t o = 0; o < costs.size(); ++o) {
                if (static_cast<int>(o) == cheapest[i]) continue;
                effects_[i][o] = mean.size();
                mean.push_back(scale_ * (costs[o] - least));
            }
        }
        double average = 0;
        for (const double value : mean) average += value / static_cast<double>(mean.size());
        // Half of what is expected and half of the mean: small costs are not exact either.
        std::vector<double> deviation;
        for (const double value : mean) deviation.push_back(0.5 * (value + average));
        variance_ = average * average;
        belief_ = std::make_unique<LinearBelief>(std::move(mean), deviation);
        take_hints();
        return true;
    }

    void take_hints() {
        for (std::size_t i = 0; i < options_.hints.size(); ++i) {
            for (std::size_t o = 0; o < options_.hints[i].size(); ++o) {
                const Hint& hint = options_.hints[i][o];
                Choice changed_item = result_.choice;
                changed_item[i] = static_cast<int>(o);
                if (changed_item == result_.choice || !judged_[i]) continue;
                belief_->observe(difference(changed_item), hint.change,
                                 hint.deviation * hint.deviation + variance_);
            }
        }
    }

    // The effects that make the difference between a choice and the best one so far.
    LinearBelief::Terms difference(const Choice& candidate) const {
        LinearBelief::Terms terms;
        for (std::size_t i = 0; i < candidate.size(); ++i) {
            if (candidate[i] == result_.choice[i]) continue;
            const auto add = [&](int option, double factor) {
                const std::size_t effect = effects_[i][static_cast<std::size_t>(option)];
                if (effect != kNone) terms.emplace_back(effect, factor);
            };
            add(candidate[i], 1.0);
            add(result_.choice[i], -1.0);
        }
        return terms;
    }

    // Differences to the best choice, whose loss is known. Every change brings its interactions,
    // which stand as an error of a mean effect.
    void learn(const Choice& candidate, double value) {
        const int changes = changed(candidate, result_.choice);
        belief_->observe(difference(candidate), value - result_.loss, variance_ * changes);
    }

    // The best choice for drawn effects with at most `moves_` changes, or as few as there are;
    // empty when nothing new comes up.
    Choice propose() {
        for (int attempt = 0; attempt < kTries; ++attempt, ++draws_) {
            draw_effects();
            // A price on changes: doubled until few enough are left, then halved towards it.
            double low = 0, high = 0, price = 0;
            Choice best;
            for (int step = 0; step < 24; ++step) {
                const Choice choice = solve(price);
                const int count = choice.empty() ? 0 : changed(choice, result_.choice);
                if (count > 0 && count <= moves_ && !seen_.contains(choice)) {
                    if (best.empty() || count > changed(best, result_.choice)) best = choice;
                }
                if (count > moves_) {
                    low = price;
                } else {
                    if (price == 0) break;
                    high = price;
                }
                price = high > 0 ? 0.5 * (low + high) : std::max(2 * price, std::sqrt(variance_));
            }
            if (!best.empty()) {
                ++draws_;
                return best;
            }
        }
        return {};
    }

    void draw_effects() {
        drawn_.clear();
        for (std::size_t e = 0; e < belief_->size(); ++e) {
            drawn_.push_back(belief_->mean(e) +
                             belief_->deviation(e) * standard_normal(options_.seed, draws_, e));
        }
    }

    Choice solve(double price) {
        for (std::size_t i = 0; i < problem_.items.size(); ++i) {
            std::vector<double>& costs = problem_.items[i].cost;
            for (std::size_t o = 0; o < costs.size(); ++o) {
                const bool stays = !judged_[i] || static_cast<int>(o) == result_.choice[i];
                costs[o] = (effects_[i][o] == kNone ? 0.0 : drawn_[effects_[i][o]]) +
                           (options_.unseen.empty() ? 0.0 : scale_ * options_.unseen[i][o]) +
                           (stays ? 0.0 : price);
            }
        }
        return solve_selection(problem_, {.seconds = 60, .gap = 1e-3}).choice;
    }

    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

    SelectionProblem problem_;
    const ChoiceLoss& loss_;
    RefineOptions options_;
    int moves_, draws_ = 0;
    double scale_ = 0;          // the loss per cost
    std::vector<bool> judged_;  // per item: it has a cost that the loss sees
    Refinement result_;
    std::set<Choice> seen_;
    std::vector<std::vector<std::size_t>> effects_;  // [item][option]
    std::unique_ptr<LinearBelief> belief_;
    double variance_ = 0;  // of what one change does besides its effect
    std::vector<double> drawn_;
};

}  // namespace

Refinement refine_selection(const SelectionProblem& problem, const std::vector<int>& start,
                            const ChoiceLoss& loss, const RefineOptions& options) {
    check(problem, start, options);
    return Search(problem, start, loss, options).run();
}

}  // namespace subbyte::plan
